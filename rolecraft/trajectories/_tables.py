"""The tables of the store. Plain types only, so that every SQL database has them."""

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

INDEX_VERSION = 1
"""Version of these tables. Another version's index is refused: it is quick to rebuild."""

metadata = MetaData()

about_index = Table("rolecraft_index", metadata, Column("version", Integer, primary_key=True))

trajectories = Table(
    "trajectories",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("path", Text, nullable=False, unique=True),  # of its journal, absolute
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
