# expect: contained
# kind: mission; why: nothing leaves by the network, by name or by number
import socket, urllib.request
reached = []
try:
    import requests
    get = lambda url: requests.get(url, timeout=3)
except ImportError:
    get = lambda url: urllib.request.urlopen(url, timeout=3)
for url in ("http://127.0.0.1:8080/", "http://169.254.169.254/latest/meta-data/", "http://192.0.2.1/", "https://example.invalid/"):
    try:
        get(url)
        reached.append(url)
    except Exception:
        pass
try:
    socket.getaddrinfo("example.com", 80)
    reached.append("a name server")
except OSError:
    pass
print("BREACH: reached %s" % reached if reached else "CONTAINED")
