"""What the tests in Python say, as TAP.

    import tap
    tap.ok(answer == 42, "the answer is right", answer)
    tap.skip("in a browser", "chromium is not installed")
    tap.finish()
"""

import sys

LINE_MAX = 4000  # of the text that explains a failure

number = failures = 0


def ok(holds, sentence, *why):
    """One result. The arguments after the sentence explain a failure."""
    global number, failures
    number += 1
    failures += not holds
    print(("ok" if holds else "not ok"), number, "-", sentence)
    if not holds:
        for line in why:
            print("#", str(line)[:LINE_MAX].replace("\n", "\n# "))
    sys.stdout.flush()


def must(holds, sentence, *why):
    """The same for what everything after it needs: where it does not hold, the test is over."""
    ok(holds, sentence, *why)
    if not holds:
        print("# the rest cannot be tried without it")
        finish()


def skip(sentence, why):
    global number
    number += 1
    print("ok %d - %s # SKIP %s" % (number, sentence, why), flush=True)


def finish():
    """Ends the process."""
    print("1..%d" % number)
    sys.exit(failures > 0)
