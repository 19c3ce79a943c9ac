"""Looking at runs: self-contained HTML pages, charts and sequence diagrams."""

from rolecraft.viewer.page import write_page
from rolecraft.viewer.report import TrainingReport, training_page, trajectory_page

__all__ = ["TrainingReport", "training_page", "trajectory_page", "write_page"]
