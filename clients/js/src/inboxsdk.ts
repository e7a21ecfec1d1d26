// /sdk/inbox.js: the element <godwit-inbox>, and as the global GodwitInbox what it is made of.
// <script src="https://push.example.org/sdk/inbox.js" async></script>

import { define, setHome } from "./inbox/element.js";
import { createInbox } from "./inbox/inbox.js";
import { server } from "./inboxbeside.js";

setHome(server);
define();

const GodwitInbox = { createInbox };

declare global {
  interface Window {
    GodwitInbox: typeof GodwitInbox;
  }
}

window.GodwitInbox = GodwitInbox;
