"""`python -m mechc.verify.recheck KERNEL.py CERTIFICATE.json [DECLARATION]`."""

import sys

from mechc.verify.recheck import main

raise SystemExit(main(sys.argv[1:]))
