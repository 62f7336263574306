# expect: timeout
# kind: mission; why: an endless loop ends by time
while True:
    pass
