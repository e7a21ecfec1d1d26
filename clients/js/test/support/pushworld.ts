import type { Browser } from "playwright-core";
import { Visitor } from "./browser.js";
import { PushBackend, site } from "./site.js";
import { eventually } from "./wait.js";

/** A site whose page loads the server's script, as the guide says. */
export async function world(attributes = 'data-app="news"', more: Record<string, string> = {}) {
  const backend = await PushBackend.start();
  const script = `<script src="${backend.url}/sdk/godwit.js" ${attributes} async></script>`;
  const origin = await site(() => backend.url, {
    "/": `<h1>News</h1>${script}`,
    "/bare": "<h1>No script</h1>",
    "/godwit-sw.js": `importScripts("${backend.url}/sdk/sw.js");`,
    ...more,
  });
  return { backend, origin };
}

/** A visitor of such a site who has said yes. */
export async function subscribed(browser: Browser, attributes?: string, more?: Record<string, string>) {
  const { backend, origin } = await world(attributes, more);
  const visitor = await Visitor.come(browser);
  await visitor.context.grantPermissions(["notifications"], { origin });
  await visitor.page.goto(origin);
  await visitor.page.getByRole("button", { name: "Continue" }).click();
  await eventually("the browser is registered", () => backend.endpoints.size === 1);
  await visitor.subscribed();
  await visitor.worker();
  return { backend, origin, visitor };
}
