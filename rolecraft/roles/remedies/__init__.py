"""Structural remedies: parts that keep a team from failing in known ways.

docs/remedies.md says which failure modes each of them answers.
"""

from rolecraft.roles.remedies.closing import Hierarchy, SuperiorCloses
from rolecraft.roles.remedies.confidence import (
    Abstain,
    ActsWhenSure,
    Adaptive,
    Answer,
    Decide,
    Estimate,
)
from rolecraft.roles.remedies.protocol import (
    KeepsProtocol,
    May,
    MessageProtocol,
    Saying,
    Violation,
)
from rolecraft.roles.remedies.review import (
    Comment,
    Deliver,
    Review,
    Reviewed,
    Reviewer,
    ReviewWork,
    ReviseWork,
)
from rolecraft.roles.remedies.voting import (
    Tally,
    Ties,
    UntilVerified,
    Verification,
    Vote,
    majority,
)

__all__ = [
    "Abstain",
    "ActsWhenSure",
    "Adaptive",
    "Answer",
    "Comment",
    "Decide",
    "Deliver",
    "Estimate",
    "Hierarchy",
    "KeepsProtocol",
    "May",
    "MessageProtocol",
    "Review",
    "ReviewWork",
    "Reviewed",
    "Reviewer",
    "ReviseWork",
    "Saying",
    "SuperiorCloses",
    "Tally",
    "Ties",
    "UntilVerified",
    "Verification",
    "Violation",
    "Vote",
    "majority",
]
