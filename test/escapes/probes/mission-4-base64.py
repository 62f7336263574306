# expect: contained
# kind: mission; why: hidden code has no more rights than plain code
import base64
secret = base64.b64encode(b"""
import os
try:
    os.setuid(0)
    print('BREACH: root')
except OSError:
    print('CONTAINED')
""")
exec(base64.b64decode(secret))
