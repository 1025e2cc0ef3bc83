#!/usr/bin/env python3
"""Run files of tests with pytest, and print what became of them as TAP.

    tap_plugin.py [pytest's own options] FILE...

The name of a test is its function's, with blanks; behind it stand the parameters that it was run with.
"""

import sys

import pytest


class Tap:
    def __init__(self):
        self.number = 0

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        config.pluginmanager.unregister(name="terminalreporter")

    def line(self, result, report, why=""):
        self.number += 1
        name = report.nodeid.split("::", 1)[-1].replace("test_", "", 1).replace("::", ": ").replace("_", " ")
        print("%s %d - %s%s" % (result, self.number, name, why), flush=True)

    def failed(self, report):
        self.line("not ok", report)
        for text in [report.longreprtext] + [content for _, content in report.sections]:
            print("# " + text.strip().replace("\n", "\n# "), flush=True)

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed(report)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed(report)
        elif report.skipped:
            self.line("ok", report, " # SKIP " + str(report.longrepr[2]).replace("\n", " "))
        elif report.when == "call":
            self.line("ok", report)

    def pytest_sessionfinish(self):
        print("1..%d" % self.number, flush=True)


if __name__ == "__main__":
    sys.exit(pytest.main(["-p", "no:cacheprovider", "-W", "error", *sys.argv[1:]], plugins=[Tap()]))
