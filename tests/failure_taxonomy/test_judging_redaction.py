"""What looks like a secret is in no text that a judge is shown, and the judge can still judge.

None of the secrets here is one: they only look alike.
"""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy import Judge, annotate
from rolecraft.failure_taxonomy.evidence import quotable
from rolecraft.failure_taxonomy.judging.redaction import RULES, Redaction
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import windows
from rolecraft.trajectories import Artifact, Event, FailureFinding

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join("MIIEpAIBAAKCAQEA" + "q7" * 24 for _ in range(30))
    + "\n-----END RSA PRIVATE KEY-----"
)

SECRETS = [
    ("key", "sk-proj-abcDEF0123456789abcDEF"),
    ("key", "sk-ant-api03-abcDEF0123456789abcDEF"),
    ("key", "ghp_" + "a1B2" * 9),
    ("key", "github_pat_" + "a1B2" * 9),
    ("key", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("key", "AIza" + "Sy0123456789abcdefghijklmnopqrstu"),
    ("key", "hf_" + "abcdefghijABCDEFGHIJ12"),
    ("key", "xoxb-" + "123456789012-abcdefABCDEF"),
    ("key", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN"),
    ("private key", PEM),
    ("email", "jane.doe+work@mail.example.co.uk"),
    ("IBAN", "DE89 3704 0044 0532 0130 00"),
    ("IBAN", "GB82WEST12345698765432"),
    ("phone number", "+49 151 23456789"),
    ("phone number", "+1 (212) 555-0187"),
]

TOLD = [
    ("token", "Authorization: Bearer {}", "abcDEF0123456789abcDEF.x"),
    ("password", "password = '{}'", "hunter-two"),
    ("password", '{{"api_key": "{}"}}', "0a1b2c3d4e5f"),
    ("password", '{{\\"password\\": \\"{}\\"}}', "correcthorse"),
    ("password", "export DB_PASSWORD={}", "hunter2hunter2"),
    ("password in an address", "postgres://app:{}@db.example:5432/x", "pa55word"),
]

HARMLESS = [
    "I use sk-learn-contrib-metric-learning for this.",
    "The password is wrong. Ask for the token and the secret.",
    "api_key=os.environ['KEY'], password=getpass()",
    "x = 12345678901234567890, phi = 1.61803398874989",
    "see user@localhost and file@v2, git@github",
    "DE89 3704 0044 0532 0130 01 has wrong check digits",
    "basic authentication, bearer of bad news",
    "@@ -1,7 +1,8 @@",
    "https://example.org:8080/a/b@c",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
]


def shown(trace, redaction=None):
    redacted = (redaction or Redaction()).apply(trace)
    parts = windows(redacted.view, size=1000, overlap=100)
    return "\n".join(part.text("M") for part in parts), redacted


@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=lambda value: value[:24])
def test_a_secret_is_taken_out(trace, kind, secret):
    text, redacted = shown(trace(Event("message", role="ann", content=f"It is {secret}, right?")))
    assert secret not in text
    assert f"It is [redacted {kind} 1], right?" in text
    assert redacted.counts == {kind: 1}


@pytest.mark.parametrize(("kind", "around", "secret"), TOLD, ids=lambda value: value[:24])
def test_what_the_words_before_it_give_away_is_taken_out_wherever_it_is_said(
    trace, kind, around, secret
):
    """`hunter-two` looks like nothing, but somebody called it a password once."""
    text, redacted = shown(
        trace(
            Event("message", role="ann", content=f"I try {secret} first."),
            Event("message", role="ann", content=around.format(secret)),
        )
    )
    assert secret not in text
    assert around.format(f"[redacted {kind} 1]") in text
    assert f"I try [redacted {kind} 1] first." in text
    assert redacted.counts == {kind: 1}


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_stays_as_it_is(trace, text):
    said, redacted = shown(trace(Event("message", role="ann", content=text)))
    assert text in said
    assert redacted.counts == {}


def test_wherever_it_stands_in_a_trace(trace):
    mail = "jane@example.org"
    trajectory = trace(
        Event("message", role=mail, content="hello", to=(mail,)),
        Event("tool_call", role=mail, data={"tool": mail, "arguments": {mail: [{"to": mail}]}}),
        Event("artifact", role="ann", artifact=Artifact(f"to {mail}", "0")),
        Event("message", role="ann", content=json.dumps({"key": PEM})),
        task={"prompt": f"write to {mail}"},
        roles=[{"name": mail, "system": f"you are {mail}", "goal": mail}],
        constraints=[{"text": f"only {mail}"}],
        labels={"note": mail},
    )
    before = deepcopy(trajectory)
    text, redacted = shown(trajectory)
    assert mail not in text
    assert "MIIEpAIBAAKCAQEA" not in text
    assert mail not in str(redacted.view.about), "also what a judge sees only if it is told to"
    assert redacted.counts == {"email": 1, "private key": 1}
    assert text.count("[redacted email 1]") >= 8
    assert trajectory == before, "the original is left as it is"


def test_a_secret_that_a_window_cuts_in_two_is_in_none_of_them(trace):
    """The key has no end and is longer than a window: only its first part looks like a key."""
    cut = PEM.rpartition("-----END")[0]
    for text in (cut, json.dumps(cut)[1:-1], PEM * 2):
        said, _ = shown(trace(Event("message", role="ann", content=f"here: {text}\nthanks, Ann")))
        assert "MIIEpAIBAAKCAQEA" not in said
        assert "q7q7" not in said
        assert "thanks, Ann" in said


def test_the_same_secret_has_the_same_stand_in_and_another_one_another(trace):
    text, _ = shown(
        trace(
            Event("message", role="ann", content="a@example.org or b@example.org?"),
            Event("message", role="ben", content="b@example.org"),
        )
    )
    assert "[redacted email 1] or [redacted email 2]?" in text
    assert text.endswith("[redacted email 2]")


def test_a_finding_has_the_real_name_of_its_role_and_a_quote_without_the_secret(trace):
    trajectory = trace(Event("message", role="jane@example.org", content="call bob@example.org"))
    redacted = Redaction().apply(trajectory)
    (event,) = redacted.view.events
    seen = FailureFinding(
        "derailment", "present", events=(0,), role=event.role, quote=quotable(event)
    )
    (finding,) = redacted.restored([seen])
    assert finding.role == "jane@example.org"
    assert finding.quote == "call [redacted email 2]"


def test_patterns_of_the_users_own(trace):
    redaction = Redaction([r"Project \w+", r"case (?P<secret>\d+)"])
    trajectory = trace(
        Event("message", role="ann", content="Project Tulip, case 4711; 4711x", data={"n": 4711}),
        Event("tool_call", role="ann", data={"tool": "find", "arguments": {"case": 471112}}),
    )
    text, _ = shown(trajectory, redaction)
    assert "[redacted pattern 1 1], case [redacted pattern 2 1]" in text
    assert redaction.names[:2] == ["pattern 1", "pattern 2"]
    assert redaction.names[2:] == [rule.name for rule in RULES]
    only = Redaction(["Tulip"], rules=())
    assert only.names == ["pattern 1"]
    assert "Project [redacted pattern 1 1]" in shown(trajectory, only)[0]


def test_numbers_are_texts_too(trace):
    call = Event("tool_call", role="ann", data={"tool": "dial", "arguments": {"n": 4711, "m": 5}})
    text, _ = shown(trace(call), Redaction(["4711"]))
    assert '"arguments":{"n":"[redacted pattern 1 1]","m":5}' in text


@pytest.mark.parametrize("pattern", ["(", "a*", "", "x|"])
def test_a_pattern_that_is_none_or_takes_everything_is_refused(pattern):
    with pytest.raises(UsageError, match="pattern"):
        Redaction([pattern])


def test_a_view_may_be_given(trace):
    view = TraceView(trace(Event("message", role="ann", content="a@example.org")))
    assert Redaction().apply(view).view.events[0].content == "[redacted email 1]"


async def test_a_judge_never_sees_a_secret_and_its_finding_holds(trace, says):
    trajectory = trace(
        Event("message", role="user", content="my key is sk-abcDEF0123456789abc", to=("a@b.org",)),
        Event("message", role="a@b.org", content="I sing: sk-abcDEF0123456789abc, la la"),
    )
    row = {
        "mode": "derailment",
        "verdict": "present",
        "role": "[redacted email 1]",
        "events": [1],
        "quote": "I sing: [redacted key 1], la la",
    }
    model = says(row)
    report = await annotate(trajectory, judge=Judge(model, redaction=Redaction()))
    seen = "".join(message.content for call in model.calls for message in call.messages)
    assert "sk-abc" not in seen
    assert "a@b.org" not in seen
    (finding,) = report.present
    assert (finding.mode, finding.events, finding.role) == ("derailment", (1,), "a@b.org")
    assert finding.quote == row["quote"], "a label does not repeat the secret"
    assert report.to_dict()["judge"]["redacted"] == {"key": 1, "email": 1}
    assert "2 secrets taken out" in report.summary()


async def test_without_redaction_the_label_says_that_nothing_was_looked_for(trace, says):
    trajectory = trace(Event("message", role="ann", content="a@b.org"))
    report = await annotate(trajectory, judge=says())
    assert report.to_dict()["judge"]["redacted"] is None
    report = await annotate(trajectory, judge=Judge(says(), redaction=Redaction(rules=())))
    assert report.to_dict()["judge"]["redacted"] == {}


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----\n",
        "password:",
        "bearer ",
        "sk-",
        "a@",
        "http://a:b",
        "DE12 3456 ",
        "password='{}x' ",
    ],
)
def test_no_text_takes_for_ever(trace, growth, text):
    """Each is made to begin a secret everywhere: time grows with the length, not its square."""

    def redacts(length):
        said = "".join(text.format(at + 10**9) for at in range(length // len(text)))
        long = trace(Event("message", role="ann", content=said))
        return lambda: Redaction().apply(long)

    growth(redacts, 20_000, 320_000, at_most=16 * 6)
