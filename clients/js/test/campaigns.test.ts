import { expect, test } from "vitest";
import { type CampaignStatus, Client, GodwitError } from "../src/node.js";
import { Server } from "./support/server.js";

test("campaigns, endpoints and channels of a real server", async () => {
  const server = await Server.start();
  const api = new Client(server.url, { apiKey: "dev" });
  const fields = {
    content: { title: "Hi {{name|friend}}" },
    audience: { channels: ["live"], recipients: ["ada", "eve"] },
    ttl: "1h",
  };
  const campaign = api.campaign({ ...fields, name: "Spring" });
  expect(campaign.id).toBe("");
  expect((await campaign.status()).state).toBe("draft");
  const { revision } = await campaign.status();
  expect((await campaign.revise({ ...fields, name: "Summer" }, revision)).name).toBe("Summer");
  await expect(campaign.revise({ ...fields, name: "Autumn" }, revision)).rejects.toMatchObject({ status: 412 });
  await expect(campaign.delete(revision)).rejects.toMatchObject({ status: 412 });
  expect((await campaign.status()).name).toBe("Summer");
  await campaign.start();
  let last: CampaignStatus | undefined;
  for await (last of campaign.progress());
  expect(last).toMatchObject({ state: "completed", total: 2, ended: true });
  expect(last?.counts.accepted).toBe(2);
  const to: (string | undefined)[] = [];
  for await (const d of campaign.deliveries("accepted")) to.push(d.recipient);
  expect(to.sort()).toEqual(["ada", "eve"]);
  const again = api.campaign(campaign.id);
  await expect(again.correct({ content: { title: "Ho" } })).rejects.toMatchObject({ status: 409 });
  await again.recall();
  for await (last of again.progress());
  expect(last?.counts.recalled).toBe(2);
  const copy = await again.clone("Autumn");
  expect(await copy.status()).toMatchObject({ name: "Autumn", state: "draft", total: 0 });
  const second = { share: 20, content: { title: "Ho" } };
  await copy.revise({ ...fields, variants: [{ share: 20 }, second], metric: "shown", decideAfter: "1h" });
  await copy.start();
  expect((await copy.decide("B").catch(() => copy.status())).variants?.B.counts).toBeDefined();
  for await (last of copy.progress());
  expect(last).toMatchObject({ state: "completed", total: 2 });
  expect((last?.variants?.A.total ?? 0) + (last?.variants?.B.total ?? 0) + (last?.rest?.total ?? 0)).toBe(2);
  await again.delete();
  await expect(again.status()).rejects.toMatchObject({ status: 404 });

  const bad = api.campaign({ content: { title: "Hi", telegram: { button: [] } } });
  const refused = await bad.start().catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(GodwitError);
  expect(refused).toMatchObject({ field: "content.telegram.button" });

  const id = await api.endpoints.register({ channel: "telegram", address: { chat_id: 7 }, tags: ["js"] });
  expect((await api.endpoints.get(id)).address).toEqual({ chat_id: 7 });
  expect((await api.endpoints.change(id, { addTags: ["vip"] })).tags).toEqual(["js", "vip"]);
  expect(await api.endpoints.count({ tagsAny: ["vip"] })).toBe(1);
  const found: string[] = [];
  for await (const e of api.endpoints.list({ tag: "vip" })) found.push(e.id);
  expect(found).toEqual([id]);
  await expect(api.endpoints.count({ segment: "nobody" })).rejects.toMatchObject({ field: "segment" });
  await expect(api.endpoints.list({ segment: "nobody" }).next()).rejects.toMatchObject({ field: "segment" });
  await api.endpoints.delete(id);
  expect(await api.endpoints.count({ where: 'tags contains "vip"' })).toBe(0);

  await api.channels.set("telegram", { token: "42:AAExampleSecretOfTheBot", base_url: "http://127.0.0.1:1" });
  expect((await api.channels.list()).find((c) => c.channel === "telegram")?.enabled).toBe(true);
  expect((await api.channels.test("telegram")).ok).toBe(false);
  await api.channels.delete("telegram");
});
