/** The inbox in Vue: the element as a component, and the inbox without a picture as a composable. */

import {
  defineComponent,
  h,
  onMounted,
  onUnmounted,
  type PropType,
  type ShallowRef,
  shallowRef,
  watchEffect,
} from "vue";
import { define, type GodwitInbox, type InboxCategory } from "./element.js";
import { createInbox, type Inbox } from "./inbox.js";
import type { InboxItem, InboxOptions, InboxState } from "./types.js";
import type { InboxTexts } from "./words.js";

/** <godwit-inbox> with its properties; its events are open, action, change and error. On a server it is an empty element. */
export const GodwitInboxElement = defineComponent({
  name: "GodwitInboxElement",
  props: {
    token: [String, Function] as PropType<InboxOptions["token"]>,
    texts: Object as PropType<Partial<InboxTexts>>,
    row: Function as PropType<(item: InboxItem) => Node | undefined>,
    categories: Array as PropType<readonly InboxCategory[]>,
    channels: Array as PropType<readonly string[]>,
  },
  emits: ["open", "action", "change", "error"],
  setup(props, { emit, slots }) {
    const element = shallowRef<GodwitInbox>();
    onMounted(() => {
      define();
      watchEffect(() => {
        if (element.value) Object.assign(element.value, props);
      });
    });
    const on = {
      "onGodwit-open": (event: Event) => emit("open", event),
      "onGodwit-action": (event: Event) => emit("action", event),
      "onGodwit-change": (event: Event) => emit("change", event),
      "onGodwit-error": (event: Event) => emit("error", event),
    };
    return () => h("godwit-inbox", { ref: element, ...on }, slots.default?.());
  },
});

/** The inbox of a recipient, and its state, which is current while the component is mounted. */
export function useInbox(options: InboxOptions): { inbox: Inbox; state: Readonly<ShallowRef<InboxState>> } {
  const inbox = createInbox(options);
  const state = shallowRef(inbox.state);
  let leave = () => {};
  onMounted(() => {
    leave = inbox.subscribe(() => {
      state.value = inbox.state;
    });
  });
  onUnmounted(() => leave());
  return { inbox, state };
}
