"""Why it failed: the 14 failure modes, detectors, a judge, importers, reports.

report = await annotate(run)                      # detectors only
report = await annotate("log.json", judge=model)  # a model for what they leave open
print(report.summary())
"""

from rolecraft.failure_taxonomy.annotate import annotate, annotate_many
from rolecraft.failure_taxonomy.codes import MAST_V3, CodeSystem
from rolecraft.failure_taxonomy.detectors import DETECTORS, Detector, Diagnostic
from rolecraft.failure_taxonomy.formats import (
    Format,
    load_mapping,
    read,
    recognise,
    register_format,
)
from rolecraft.failure_taxonomy.judging import Asker, Judge, Opinion
from rolecraft.failure_taxonomy.live import LiveDetectors
from rolecraft.failure_taxonomy.modes import MODES, Category, Mode, Stage, get_mode
from rolecraft.failure_taxonomy.own_modes import load_modes, register_mode
from rolecraft.failure_taxonomy.report import Decisive, Report

__all__ = [
    "DETECTORS",
    "MAST_V3",
    "MODES",
    "Asker",
    "Category",
    "CodeSystem",
    "Decisive",
    "Detector",
    "Diagnostic",
    "Format",
    "Judge",
    "LiveDetectors",
    "Mode",
    "Opinion",
    "Report",
    "Stage",
    "annotate",
    "annotate_many",
    "get_mode",
    "load_mapping",
    "load_modes",
    "read",
    "recognise",
    "register_format",
    "register_mode",
]
