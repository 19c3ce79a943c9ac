"""Tool calls in the text of models: what local models write where APIs have fields."""

from rolecraft.models.tool_calls.choosing import Choice, choose_format
from rolecraft.models.tool_calls.output import (
    CallPiece,
    ContentPiece,
    Diagnostic,
    ParsedOutput,
    Piece,
    ReasoningPiece,
    TakenBack,
)
from rolecraft.models.tool_calls.parser import ToolCallParser, ToolCallStream
from rolecraft.models.tool_calls.registry import get_parser, parser_names, register_parser

__all__ = [
    "CallPiece",
    "Choice",
    "ContentPiece",
    "Diagnostic",
    "ParsedOutput",
    "Piece",
    "ReasoningPiece",
    "TakenBack",
    "ToolCallParser",
    "ToolCallStream",
    "choose_format",
    "get_parser",
    "parser_names",
    "register_parser",
]
