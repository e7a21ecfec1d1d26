// Shows what it is sent, and reports it to the page's own server with the browser's word that it shows it.
self.addEventListener("push", (event) => {
  const text = event.data ? event.data.text() : "";
  event.waitUntil(show(text).then((body) => fetch("/report", { method: "POST", body })));
});

// A browser may take a notification away after some seconds, so it is asked at once.
async function show(text) {
  await self.registration.showNotification("Push", { body: text });
  const shown = await self.registration.getNotifications();
  return shown.some((n) => n.body === text) ? text : "not shown: " + text;
}
