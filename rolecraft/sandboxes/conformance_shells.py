"""What every shell of a live sandbox must do. See `conformance_live`."""

from __future__ import annotations

import asyncio
import time

from rolecraft.errors import UsageError
from rolecraft.sandboxes._conformance import LiveConformance, raises, says
from rolecraft.sandboxes.conformance_stopping import ShellStoppingConformance
from rolecraft.sandboxes.live import SandboxLost


class ShellResultsConformance(LiveConformance):
    """Output, exit codes and state."""

    async def test_a_shells_output_is_exact(self) -> None:
        async with self.shell() as shell:
            await says(shell, "echo hi", "hi\n")
            await says(shell, "printf hi", "hi")
            await says(shell, "printf '\\n\\n a \\t\\r\\n'", "\n\n a \t\r\n")
            await says(shell, "true", "")
            await says(shell, "", "")
            await says(shell, "   # nothing but a comment", "")
            await says(shell, "echo 'ä ✓ 𝄞'", "ä ✓ 𝄞\n")

    async def test_both_streams_of_a_shell_come_in_order(self) -> None:
        async with self.shell() as shell:
            line = "for i in 1 2 3; do echo out $i; echo err $i >&2; done; ls /missing; echo end"
            output = (await shell.run(line)).stdout
            wanted = "".join(f"out {number}\nerr {number}\n" for number in (1, 2, 3))
            assert output.startswith(wanted)
            assert output.endswith("end\n")
            assert "/missing" in output.removeprefix(wanted)

    async def test_exit_codes_of_a_shells_lines(self) -> None:
        async with self.shell() as shell:
            await says(shell, "false", "", 1)
            await says(shell, "(exit 42)", "", 42)
            await says(shell, "true | false", "", 1)
            await says(shell, "(exit 3)", "", 3)
            await says(shell, "echo $? $(echo $?)", "3 3\n")
            await says(shell, "echo $?; (exit 9)", "0\n", 9)
            await says(shell, "echo $?", "9\n")
            assert (await shell.run("no-such-program")).exit_code == 127
            assert (await shell.run("/etc")).exit_code == 126
            await says(shell, "sh -c 'kill -TERM $$'", "", 128 + 15)
            await says(shell, "yes | head -1", "y\n")

    async def test_the_state_of_a_shell_is_kept(self) -> None:
        async with self.shell(env={"FROM_SPEC": "a b"}) as shell:
            await says(shell, "mkdir -p 'a b'/c && cd 'a b'/c && pwd | tail -c 7", "/a b/c\n")
            await says(shell, "x=1; export Y=2; declare -A map=([k]=v); f() { echo f$1; }", "")
            await says(
                shell, "pwd | tail -c 7; echo $x ${map[k]}; sh -c 'echo $Y'", "/a b/c\n1 v\n2\n"
            )
            await says(shell, "f 3; shopt -s extglob; alias say='echo said'", "f3\n")
            await says(shell, "say so; echo +(a|b); echo $FROM_SPEC", "said so\n+(a|b)\na b\n")
            await says(shell, "umask 077; set -o pipefail", "")
            await says(shell, "umask; false | true", "0077\n", 1)
            await says(
                shell, "exec 5>file; echo through five >&5; exec 5>&-; cat file", "through five\n"
            )

    async def test_shells_side_by_side_share_files_and_nothing_else(self) -> None:
        async with self.sandbox(files={"d/f": "1"}) as sandbox:
            first = await sandbox.shell(cwd="d", env={"NAME": "first"})
            second = await sandbox.shell()
            await says(first, "x=1; echo 2 > f; echo $NAME", "first\n")
            await says(second, 'echo "$x$NAME"; cat d/f', "\n2\n")
            began = time.monotonic()
            await asyncio.gather(first.run("sleep 1"), second.run("sleep 1"))
            assert time.monotonic() - began < 1.9, "one waited for the other"

    async def test_lines_given_at_once_run_in_order(self) -> None:
        async with self.shell() as shell:
            done = await asyncio.gather(*(shell.run(f"x+={n}; echo $x") for n in range(9)))
            assert [each.stdout for each in done] == ["012345678"[: n + 1] + "\n" for n in range(9)]

    async def test_background_processes_go_on_between_lines(self) -> None:
        async with self.shell() as shell:
            await says(shell, "(while [ ! -e go ]; do sleep 0.01; done; echo went > went) &", "")
            await says(shell, "touch go; wait; cat went", "went\n")
            began = time.monotonic()
            await says(shell, "sleep 30 & echo at once", "at once\n")
            await says(shell, "(sleep 30; echo never) & echo holds the pipe", "holds the pipe\n")
            assert time.monotonic() - began < 10, "it waited for what keeps the output open"
            await says(shell, "kill %1 %2; wait", "")


class ShellInputConformance(LiveConformance):
    """Lines that are more than a line, and lines that are wrong."""

    async def test_several_lines_and_heredocs(self) -> None:
        async with self.shell() as shell:
            await says(shell, "echo 1\necho 2\n\n\necho 3", "1\n2\n3\n")
            await says(
                shell,
                "x=5\ncat <<EOF\na $x 'b\nEOF\ncat <<'EOF'\n$x \"\\\nEOF",
                "a 5 'b\n$x \"\\\n",
            )
            await says(shell, "for i in 1 2\ndo\n  echo $i\ndone", "1\n2\n")
            await says(
                shell,
                "python3 - <<'END'\nfor i in range(2):\n    print(i, '\\n')\nEND",
                "0 \n\n1 \n\n",
            )
            await says(shell, "echo a \\\n  b", "a b\n")

    async def test_every_character_reaches_the_line(self) -> None:
        text = "".join(map(chr, range(1, 127))) + "äé✓𝄞\x7f"
        async with self.shell() as shell:
            quoted = text.replace("'", "'\\''")
            await says(shell, f"printf %s '{quoted}' | wc -c", f"{len(text.encode())}\n")
            await says(shell, "echo 'a!b' \"c!!d\" !x", "a!b c!!d !x\n")
            assert (await shell.run("echo 'a\ud800b'")).stdout.startswith(
                "a\N{REPLACEMENT CHARACTER}"
            )
            with raises(UsageError, "NUL"):
                await shell.run("echo \0")

    async def test_a_line_may_be_long(self) -> None:
        async with self.shell() as shell:
            await says(shell, f"x='{'y' * 1_000_000}'; echo ${{#x}}", "1000000\n")
            await says(shell, "echo ${#x}; cat", "1000000\n")

    async def test_a_wrong_line_is_a_result_and_no_end(self) -> None:
        async with self.shell() as shell:
            await shell.run("kept=1")
            for line in ("echo $(", "x=$(case 1 in", "echo <(", "f() {", 'echo "$(cat <<E\nx'):
                assert (await shell.run(line)).exit_code != 0, line
                await says(shell, "y=$(echo kept); echo $y", "kept\n")
            for line in (
                "echo 'open",
                'echo "open',
                "if",
                "if true; then",
                "echo $(",
                "f() {",
                ")",
            ):
                done = await shell.run(line)
                assert done.exit_code != 0, line
                assert done.stdout, line
            unended = await shell.run("cat <<EOF\ntext")
            assert "text" in unended.stdout
            for line in ("echo ${", "done", "break", "continue", "local x", "readonly r=1; r=2"):
                await shell.run(line)
            await says(shell, "echo $kept", "1\n")

    async def test_what_reads_input_finds_none(self) -> None:
        async with self.shell() as shell:
            await says(shell, "cat; wc -c", "0\n")
            await says(shell, 'read x; echo "$?$x"', "1\n")
            await says(shell, "bash; sh -s; python3; echo here", "here\n")
            await says(shell, "exec < /dev/null; echo on", "on\n")
            await says(shell, "cat <&0; echo next", "next\n")
            await says(shell, "echo given | cat", "given\n")

    async def test_output_that_is_no_text_is_no_error(self) -> None:
        async with self.shell() as shell:
            await says(shell, r"printf 'a\xff\x00b'", "a\N{REPLACEMENT CHARACTER}\0b")
            await says(shell, r"printf '\033[31mred\033[0m\a'", "\x1b[31mred\x1b[0m\a")
            done = await shell.run("head -c 100000 /dev/urandom", output_bytes=10**6)
            assert done.exit_code == 0
            await says(shell, "echo on", "on\n")

    async def test_of_a_shells_long_output_head_and_tail_are_kept(self) -> None:
        async with self.shell() as shell:
            done = await shell.run("echo first; seq 100000; echo last", output_bytes=1000)
            assert done.stdout_truncated
            assert done.stdout.startswith("first\n1\n")
            assert done.stdout.endswith("100000\nlast\n")
            assert " bytes left out ...]\n" in done.stdout
            assert len(done.stdout) < 1100
            exact = await shell.run("printf '%01000d' 0", output_bytes=1000)
            assert (len(exact.stdout), exact.stdout_truncated) == (1000, False)

    async def test_a_gigabyte_of_output_takes_no_memory(self) -> None:
        import resource

        async with self.shell() as shell:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            done = await shell.run("head -c 1000000000 /dev/zero; echo end", seconds=120)
            assert done.stdout.endswith("\0end\n")
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "in KiB"


class ShellTroubleConformance(LiveConformance):
    """Lines that turn on the shell itself."""

    async def test_exit_ends_the_shell_with_its_code(self) -> None:
        async with self.sandbox() as sandbox:
            shell = await sandbox.shell()
            await says(shell, "echo last; exit 3", "last\n", 3)
            assert not shell.alive
            with raises(SandboxLost):
                await shell.run("echo on")
            await shell.interrupt()
            await shell.close()
            again = await sandbox.shell()
            await says(again, "trap 'echo bye' EXIT", "")
            await says(again, "exit", "bye\n")
            assert (await sandbox.run(["true"])).ok, "the sandbox lives on"

    async def test_exec_takes_the_shells_place(self) -> None:
        async with self.sandbox() as sandbox:
            shell = await sandbox.shell()
            done = await shell.run("exec no-such-program")
            assert done.exit_code == 127
            await says(shell, "echo on", "on\n")
            await says(shell, "exec sh -c 'echo other; exit 5'", "other\n", 5)
            assert not shell.alive

    async def test_a_shell_that_is_killed_is_a_result(self) -> None:
        async with self.sandbox() as sandbox:
            shell = await sandbox.shell()
            done = await shell.run("echo now; kill -9 $$; sleep 9")
            assert (done.stdout, done.exit_code) == ("now\n", 137)
            assert not shell.alive

    async def test_errexit_ends_the_shell_as_it_does_anywhere(self) -> None:
        async with self.sandbox() as sandbox:
            shell = await sandbox.shell()
            await says(shell, "(exit 3)", "", 3)
            await says(shell, "echo $?; set -e; if false; then :; fi; echo on", "3\non\n")
            await says(shell, "(exit 4); echo not here", "", 4)
            assert not shell.alive

    async def test_an_unset_variable_ends_the_line_only(self) -> None:
        async with self.shell() as shell:
            done = await shell.run("set -u; echo $missing; echo not here")
            assert done.exit_code != 0
            assert "missing" in done.stdout
            assert "not here" not in done.stdout
            done = await shell.run("x=1; echo ${missing:?is wanted}; echo not here")
            assert "is wanted" in done.stdout
            await says(shell, "set +u; echo $x", "1\n")

    async def test_traps_and_traces_are_the_lines_own(self) -> None:
        async with self.shell() as shell:
            await shell.run("trap 'echo before $BASH_COMMAND' DEBUG")
            done = await shell.run("true")
            assert done.stdout in ("", "before true\n"), "nothing of what runs the line"
            await shell.run("set -T")
            assert "before true\n" in (await shell.run("true")).stdout
            await shell.run("set +T; trap - DEBUG; trap 'echo failed' ERR")
            await says(shell, "false; true", "failed\n")
            await shell.run("trap - ERR; set -x")
            done = await shell.run("echo traced")
            assert done.stdout.endswith("echo traced\ntraced\n")
            await shell.run("set +x; set -v")
            await shell.run("set +v")
            await says(shell, "echo on", "on\n")

    async def test_prompts_are_not_in_the_output(self) -> None:
        async with self.shell() as shell:
            await says(shell, "PS1='prompt> ' PS2='more> ' PS4='trace> '", "")
            await shell.run("PROMPT_COMMAND='echo prompted'; PS0='now '")
            await says(shell, "echo 1\necho 2", "1\n2\n")
            await says(shell, "false", "", 1)

    async def test_closed_and_moved_streams_come_back_with_the_next_line(self) -> None:
        async with self.shell() as shell:
            for line in ("exec >&-", "exec 2>&-", "exec >&- 2>&- <&-", "exec > /dev/null 2>&1"):
                await shell.run(line)
                await says(shell, "echo out; echo err >&2", "out\nerr\n")
            for number in range(3, 20):
                await shell.run(f"exec {number}>/dev/null")
            await says(shell, "echo out; echo err >&2", "out\nerr\n")

    async def test_a_folder_that_is_gone_is_no_end(self) -> None:
        async with self.shell() as shell:
            await shell.run("mkdir gone; cd gone; rmdir ../gone")
            assert (await shell.run("/bin/pwd")).exit_code != 0
            assert (await shell.run("cd no-such-folder")).exit_code == 1
            await says(shell, "cd / && pwd", "/\n")

    async def test_what_looks_like_an_answer_is_output(self) -> None:
        async with self.shell() as shell:
            forged = "0123456789abcdef:0:1;"
            await says(shell, f"echo '{forged}'; echo '{forged}' >&2; false", f"{forged}\n" * 2, 1)
            await shell.run(f"for fd in $(seq 3 255); do echo '{forged}' >&$fd; done")
            await says(shell, "false", "", 1)


class ShellConformance(
    ShellResultsConformance,
    ShellInputConformance,
    ShellTroubleConformance,
    ShellStoppingConformance,
):
    """All about shells."""
