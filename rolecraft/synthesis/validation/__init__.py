"""Which candidates some tests notice, the same ones each time."""

from rolecraft.synthesis.validation.settings import Settings
from rolecraft.synthesis.validation.validating import validate
from rolecraft.synthesis.validation.whole_folder import (
    Tally,
    candidates_of,
    valid_candidates,
    validate_folder,
)

__all__ = [
    "Settings",
    "Tally",
    "candidates_of",
    "valid_candidates",
    "validate",
    "validate_folder",
]
