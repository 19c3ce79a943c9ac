"""`Kubernetes`: what it sends to a cluster, and what it does in a pod.

There is no cluster where these run. The client is the real one; it talks to a small server that
stands for the API and checks each object, and to one that stands for the runtime in a pod: a
command line in, output out, as the runtime of agent-sandbox has it.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
import uuid
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rolecraft.errors import UsageError
from rolecraft.sandboxes import SandboxLost, SandboxRefused, SandboxSpec

MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"
NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
REFERENCE = {
    "type": "object",
    "properties": {"name": NAME},
    "required": ["name"],
    "additionalProperties": False,
}


def resource(kind: str, spec: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """The schema of one kind of agent-sandbox's v1beta1, as far as we use it."""
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"const": "extensions.agents.x-k8s.io/v1beta1"},
            "kind": {"const": kind},
            "metadata": {"type": "object", "required": ["name"]},
            "spec": {
                "type": "object",
                "properties": spec,
                "required": required,
                "additionalProperties": False,
            },
        },
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
    }


POLICIES = {"enum": ["Managed", "Unmanaged"]}
SCHEMAS = {
    "SandboxClaim": resource(
        "SandboxClaim",
        {
            "warmPoolRef": REFERENCE,
            "lifecycle": {
                "type": "object",
                "properties": {
                    "shutdownTime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT[\d:]{8}Z$"},
                    "shutdownPolicy": {"enum": ["Delete", "DeleteForeground", "Retain"]},
                    "ttlSecondsAfterFinished": {"type": "integer", "minimum": 0},
                },
                "additionalProperties": False,
            },
        },
        ["warmPoolRef"],
    ),
    "SandboxTemplate": resource(
        "SandboxTemplate",
        {
            "podTemplate": {"type": "object", "required": ["spec"]},
            "networkPolicy": {
                "type": "object",
                "properties": {"ingress": {"type": "array"}, "egress": {"type": "array"}},
                "additionalProperties": False,
            },
            "networkPolicyManagement": POLICIES,
            "envVarsInjectionPolicy": {"enum": ["Allowed", "Overrides", "Disallowed"]},
        },
        ["podTemplate"],
    ),
    "SandboxWarmPool": resource(
        "SandboxWarmPool",
        {
            "replicas": {"type": "integer", "minimum": 0},
            "sandboxTemplateRef": REFERENCE,
            "updateStrategy": {
                "type": "object",
                "properties": {"type": {"enum": ["Recreate", "OnReplenish"]}},
                "additionalProperties": False,
            },
        },
        ["replicas", "sandboxTemplateRef"],
    ),
}


def objects() -> list[dict[str, Any]]:
    return [
        each
        for path in sorted(MANIFESTS.glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
    ]


def one(kind: str, name: str) -> dict[str, Any]:
    found = [o for o in objects() if (o["kind"], o.get("metadata", {}).get("name")) == (kind, name)]
    assert len(found) == 1
    return found[0]


def core(thing: dict[str, Any]) -> None:
    """Check an object of Kubernetes itself against its published schema, strictly."""
    validate = pytest.importorskip(
        "kubernetes_validate", reason="needs the package kubernetes-validate"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validate.validate(thing, validate.latest_version(), strict=True)


def test_every_manifest_is_one_that_a_cluster_takes() -> None:
    kinds = set()
    for thing in objects():
        kinds.add(thing["kind"])
        if thing["kind"] in SCHEMAS:
            jsonschema.validate(thing, SCHEMAS[thing["kind"]])
        elif thing["kind"] == "Kustomization":
            assert all((MANIFESTS / name).is_file() for name in thing["resources"])
        else:
            core(thing)
    assert kinds >= {"Namespace", "Role", "Deployment", "SandboxTemplate", "SandboxWarmPool"}


def test_the_templates_pod_and_its_network_policy_are_valid_as_objects_of_their_own() -> None:
    spec = one("SandboxTemplate", "rolecraft-python")["spec"]
    core(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **spec["podTemplate"]}
        | {"metadata": {"name": "x", **spec["podTemplate"]["metadata"]}}
    )
    policy = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], **spec["networkPolicy"]}
    core(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "x"},
            "spec": policy,
        }
    )


def test_a_sandbox_has_no_rights_no_token_no_way_out_and_bounds_on_what_it_uses() -> None:
    spec = one("SandboxTemplate", "rolecraft-python")["spec"]
    assert spec["networkPolicy"]["egress"] == []
    assert one("NetworkPolicy", "deny-all")["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
    }
    pod = spec["podTemplate"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["hostUsers"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        rights = container["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert set(container["resources"]["limits"]) == {"cpu", "memory", "ephemeral-storage"}
    assert not any("hostPath" in volume for volume in pod["volumes"])


def test_names_that_must_agree_do() -> None:
    from rolecraft.sandboxes import kubernetes

    pool = one("SandboxWarmPool", "rolecraft-python")
    assert pool["spec"]["sandboxTemplateRef"]["name"] == "rolecraft-python"
    role, binding = (one(kind, "rolecraft-sandbox-client") for kind in ("Role", "RoleBinding"))
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert not any({"*"} & {*rule["verbs"], *rule["resources"]} for rule in role["rules"])
    kubernetes_defaults = kubernetes.Kubernetes.__init__.__kwdefaults__
    assert kubernetes_defaults["namespace"] == pool["metadata"]["namespace"]
    assert kubernetes.Kubernetes.__init__.__defaults__ == (pool["metadata"]["name"],)


class Cluster:
    """A server that stands for the Kubernetes API, and for the runtime in every pod."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.sent: list[dict[str, Any]] = []
        self.ready = True
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handler(cluster) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def reply(self, content: object, status: int = 200) -> None:
                data = json.dumps(content).encode() + b"\n"
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/execute":
                    assert self.headers["X-Sandbox-ID"] in cluster.pods()
                    self.reply(cluster.execute(body))
                    return
                assert self.path == (
                    "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/rolecraft-sandboxes"
                    "/sandboxclaims"
                )
                jsonschema.validate(body, SCHEMAS["SandboxClaim"])
                cluster.sent.append(json.loads(json.dumps(body)))
                body["metadata"] |= {"uid": uuid.uuid4().hex, "resourceVersion": "1"}
                cluster.claims[body["metadata"]["name"]] = body
                self.reply(body, 201)

            def do_GET(self) -> None:
                if "watch=True" in self.path:
                    name = self.path.split("metadata.name%3D")[1].split("&")[0]
                    claim = cluster.claims[name]
                    reason = {} if cluster.ready else {"reason": "PodFailed", "message": "broken"}
                    ready = {"type": "Ready", "status": str(cluster.ready), **reason}
                    status = {"sandbox": {"name": f"pod-{name}"}, "conditions": [ready]}
                    self.reply({"type": "MODIFIED", "object": {**claim, "status": status}})
                else:
                    self.reply({"metadata": {}, "status": {}})

            def do_DELETE(self) -> None:
                name = self.path.rpartition("/")[2]
                known = cluster.claims.pop(name, None)
                self.reply({"status": "Success"}, 200 if known else 404)

        return Handler

    def pods(self) -> set[str]:
        return {f"pod-{name}" for name in self.claims}

    def execute(self, body: dict[str, Any]) -> dict[str, Any]:
        """As the runtime in the pod: no shell, words split as a shell would."""
        done = subprocess.run(
            shlex.split(body["command"]), capture_output=True, text=True, check=False
        )
        return {"stdout": done.stdout, "stderr": done.stderr, "exit_code": done.returncode}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    pytest.importorskip("k8s_agent_sandbox", reason="needs the package k8s-agent-sandbox[async]")
    pytest.importorskip("kubernetes_asyncio", reason="needs the package k8s-agent-sandbox[async]")
    made = Cluster()
    yield made
    made.close()


def provider(cluster: Cluster, **more: Any) -> Any:
    from k8s_agent_sandbox.models import SandboxDirectConnectionConfig
    from kubernetes_asyncio import client

    from rolecraft.sandboxes.kubernetes import Kubernetes

    api = client.ApiClient(client.Configuration(host=cluster.url))
    connection = SandboxDirectConnectionConfig(api_url=cluster.url)
    return Kubernetes(connection=connection, api_client=api, **more)


@pytest.mark.slow
async def test_a_claim_is_sent_used_and_deleted(cluster: Cluster) -> None:
    made = provider(cluster, lifetime_seconds=600)
    async with await made.create(SandboxSpec(files={"a/b.txt": "hello\n"})) as sandbox:
        assert len(cluster.claims) == 1
        (claim,) = cluster.sent
        assert claim["spec"]["warmPoolRef"] == {"name": "rolecraft-python"}
        assert claim["spec"]["lifecycle"]["shutdownPolicy"] == "Delete"
        assert claim["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "rolecraft"
        words = ["sh", "-c", 'cat a/b.txt; echo "it\'s $0" >&2; exit 3', "quo'ted $HOME"]
        done = await sandbox.run(words)
        assert (done.stdout, done.exit_code) == ("hello\n", 3)
        assert done.stderr == "it's quo'ted $HOME\n"
        shell = await sandbox.shell()
        await shell.run("cd a && x=5")
        assert (await shell.run("echo $x; cat b.txt")).stdout == "5\nhello\n"
        copy = await sandbox.fork()
        assert len(cluster.claims) == 2
        assert await copy.read("a/b.txt") == b"hello\n"
        await copy.close()
    assert not cluster.claims
    await sandbox.close()
    with pytest.raises(SandboxLost):
        await sandbox.run(["true"])
    await made.api_client.close()


async def test_a_pod_that_fails_is_an_error_with_its_reason_and_leaves_no_claim(
    cluster: Cluster,
) -> None:
    from rolecraft.errors import SandboxError

    cluster.ready = False
    made = provider(cluster, ready_seconds=5)
    with pytest.raises(SandboxError, match=r"pool 'rolecraft-python'.*PodFailed: broken"):
        await made.create()
    assert not cluster.claims
    await made.api_client.close()


async def test_an_image_is_a_pool_and_what_the_template_decides_is_refused(
    cluster: Cluster,
) -> None:
    made = provider(cluster, pools={"registry.example.org/task:1": "task-one"})
    async with await made.create(SandboxSpec(image="registry.example.org/task:1")):
        assert cluster.sent[0]["spec"]["warmPoolRef"] == {"name": "task-one"}
    for spec, what in (
        (SandboxSpec(image="other"), "image"),
        (SandboxSpec(network="full"), "network"),
        (SandboxSpec(ports=(80,)), "ports"),
        (SandboxSpec(requires=frozenset({"survivors"})), "survivors"),
    ):
        with pytest.raises(SandboxRefused, match=what):
            await made.create(spec)
    await made.api_client.close()


def test_without_the_client_one_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from rolecraft.sandboxes.kubernetes import Kubernetes

    monkeypatch.setitem(sys.modules, "kubernetes_asyncio", None)
    with pytest.raises(UsageError, match=r"k8s-agent-sandbox\[async\]"):
        Kubernetes(connection=None)
