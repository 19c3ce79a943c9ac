"""The tables of the store. Plain types only, so that every SQL database has them.

Text that is in a database index is never longer than `_rows.LONGEST`: PostgreSQL refuses more than
2,700 bytes there. A journal's path is what the operating system allows, and is kept whole.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

INDEX_VERSION = 2
"""Version of these tables. Another version's index is refused: it is quick to rebuild."""

metadata = MetaData()

# In the order of its characters, whatever language the server was set up for.
_Path = Text().with_variant(Text(collation="C"), "postgresql")

about_index = Table("rolecraft_index", metadata, Column("version", Integer, primary_key=True))

trajectories = Table(
    "trajectories",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("path", _Path, nullable=False, unique=True),  # of its journal, absolute
    Column("id", Text, nullable=False, index=True),
    Column("events", BigInteger, nullable=False),
    Column("stop_reason", Text, index=True),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("usd", Double),
    Column("calls", BigInteger, nullable=False),
    Column("problems", Text, nullable=False),  # JSON list
    # How far the journal has been read, and what it looked like there.
    Column("place", Text, nullable=False),  # JSON
    Column("header", Text),  # JSON
    Column("fingerprint", String(64), nullable=False),
    Column("findings_fingerprint", String(64), nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("trajectory", ForeignKey(trajectories.c.key), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("cause", BigInteger),
    Column("line", Text, nullable=False),  # the event as its JSON line
    Index("events_by_kind", "kind", "role", "trajectory"),
    Index("events_by_role", "role", "trajectory"),
)

signals = Table(
    "signals",
    metadata,
    Column("trajectory", ForeignKey(trajectories.c.key), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("value", Double),  # NULL for NaN, which not every database has
    Index("signals_by_name", "name", "value", "trajectory"),
)

findings = Table(
    "findings",
    metadata,
    Column("trajectory", ForeignKey(trajectories.c.key), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("mode", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("confidence", Double),
    Column("line", Text, nullable=False),  # the finding as its JSON line
    Index("findings_by_mode", "mode", "verdict", "trajectory"),
)
