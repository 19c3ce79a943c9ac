"""Labels by people: a local web page on which several annotators read traces and label them.

`rolecraft label` is its front. `open_traces` reads the traces, a `Desk` keeps what is said about
them and who may see what, `exports` writes it as labels files, `serve` shows the page.
"""

from rolecraft.viewer.labelling.desk import Desk, NotAllowed
from rolecraft.viewer.labelling.edits import Conflict
from rolecraft.viewer.labelling.exporting import export_folder, exports
from rolecraft.viewer.labelling.traces import OpenTrace, open_traces

__all__ = [
    "Conflict",
    "Desk",
    "NotAllowed",
    "OpenTrace",
    "export_folder",
    "exports",
    "open_traces",
]
