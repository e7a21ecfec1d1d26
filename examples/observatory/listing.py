def update(version: str) -> None:
    print("camera-config is at version", version)


from godwit.notify import Notify, State, Connection
notify = Notify(domain="animal.observer", group_id="region-1", client_id="observer-1",
                state=State(filename="registrations.json"),            # or State(memory=True)
                connection=Connection(address="localhost", port=50051, ca_cert="ca.crt", cert="client.crt", key="client.key"))
notify.connect()
notify.register("camera-config").subscribe(lambda n: update(n.version))   # a ReactiveX observable; n.version str, n.unknown bool
notify.unregister("camera-config"); notify.disconnect()                   # notify.sync(timeout=60): connect, reconcile, ack, disconnect
