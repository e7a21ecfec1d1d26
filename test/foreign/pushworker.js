// Shows what it is sent, and reports it to the page's own server.
self.addEventListener("push", (event) => {
  const text = event.data ? event.data.text() : "";
  event.waitUntil(self.registration.showNotification("Push", { body: text }).then(() => fetch("/report", { method: "POST", body: text })));
});
