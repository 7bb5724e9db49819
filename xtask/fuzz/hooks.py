"""What the API fuzz leaves out: requests whose answer does not end, and with every change most of those that go through
an operation's description place by place."""

import collections
import os

import schemathesis

# Of those of one operation every so many are sent; all of them in a soak.
EVERY = int(os.environ.get("MUSTER_FUZZ_EVERY", "1"))
_made = collections.Counter()


def _word(value):
    return str(value).lower()


@schemathesis.hook
def filter_case(context, case):
    if EVERY == 1 or case.meta is None or _word(case.meta.phase.name) != "coverage":
        return True
    operation = context.operation.label
    _made[operation] += 1
    # The first one always: an operation without any would be an error.
    return _made[operation] % EVERY == 1


@schemathesis.hook
def before_call(context, case, kwargs):
    # A followed log ends with its job; a held job has no end. Everything else about the
    # endpoint, wrong values of `follow` included, is sent as it was made.
    if isinstance(case.query, dict) and _word(case.query.get("follow")) == "true":
        case.query["follow"] = "false"
    # The event log is followed when this is asked for, and has no end at all.
    for name in list(case.headers or {}):
        if name.lower() == "accept" and "event-stream" in _word(case.headers[name]):
            del case.headers[name]
