import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { dataOf, failureOf, useSupabase } from "../../support/supabase-client.ts";

const { content, cinema, clientOf, clientAs, url, token } = useSupabase();

describe("in the contract's examples,", () => {
  const NOTES = "Notes on the Analytical Engine";
  const PACKETS = "How packets find their way";
  const PROTOCOL = "A protocol we gave up";

  test("select of * returns all columns", async () => {
    const { data, error, status, statusText } = await content().from("articles").select("*").eq("id", 4).single();
    expect([error, status, statusText]).toEqual([null, 200, "OK"]);
    expect(data).toEqual({
      id: 4,
      author_id: 2,
      title: PROTOCOL,
      content: "It worked, but nobody could explain it.",
      status: "ARCHIVED",
      tags: ["networks"],
      created_at: expect.any(String),
      updated_at: null,
    });
  });

  test("a nested relation is written <relation>(<columns>): many-to-one is an object, one-to-many an array", async () => {
    expect(
      await dataOf(
        content().from("articles").select("title, users(name), comments(content)").eq("id", 2).order("id").single(),
      ),
    ).toEqual({ title: PACKETS, users: { name: "Bob Kahn" }, comments: [{ content: "And if a packet is lost?" }] });
  });

  test("an alias is written <alias>:<relation>(…)", async () => {
    expect(await dataOf(content().from("articles").select("title, author:users(name)").eq("id", 1).single())).toEqual({
      title: NOTES,
      author: { name: "Ada Lovelace" },
    });
  });

  test("nested filters on an embedded relation use <relation>.<column>", async () => {
    const request = content().from("articles").select("title, comments(content)").order("id");
    const rows = await dataOf(request.ilike("comments.content", "%loom%"));
    expect(rows.map(({ comments }: any) => comments.length)).toEqual([1, 0, 0, 0]);
  });
});

describe("the caller of the client:", () => {
  test("a user's token is sent by the option accessToken or as a header of all requests", async () => {
    const byOption = clientOf("anon", { accessToken: async () => token("bob") });
    const byHeader = clientOf("anon", { global: { headers: { Authorization: `Bearer ${token("bob")}` } } });
    for (const client of [byOption, byHeader]) {
      expect(await dataOf(client.rpc("me").select("name"))).toMatchObject({ name: "Bob Kahn" });
    }
  });

  test("policies show users their own rows, the anonymous key has no access, and the service key reads all rows", async () => {
    const diaries = (client: SupabaseClient<any, any>) =>
      client.schema("cinema").from("diaries").select("id").order("id");
    expect(await failureOf(diaries(content()))).toEqual([401, "42501"]);
    const mine = clientAs("ada");
    expect(await dataOf(diaries(mine))).toEqual([{ id: 1 }, { id: 3 }]);
    expect(await dataOf(diaries(clientOf("service_role")))).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
  });

  test("an invalid key is refused", async () => {
    const stranger = createClient(url(), "not-a-key", { auth: { persistSession: false } });
    const { status, error, data } = await stranger.from("users").select();
    expect([status, error?.code, error?.message, data]).toEqual([401, "PGRST301", "Invalid API key", null]);
  });
});

describe("the client returns the error", () => {
  test("with its status, details and hint", async () => {
    expect(await cinema().from("prizes").insert({ id: 2, name: "Palm" })).toMatchObject({
      ...{ data: null, count: null, status: 409, statusText: "Conflict" },
      error: {
        code: "23505",
        message: 'duplicate key value violates unique constraint "prizes_pkey"',
        details: "Key (id)=(2) already exists.",
        hint: null,
      },
    });
    expect(await cinema().rpc("fails")).toMatchObject({
      ...{ data: null, count: null, status: 400 },
      error: { code: "P0001", message: "it fails", details: "in detail", hint: "do not call it" },
    });
  });

  test("as an exception with throwOnError", async () => {
    const request = cinema().from("films").select("id").eq("id", 99).single().throwOnError();
    await expect(request).rejects.toMatchObject({ name: "PostgrestError", code: "PGRST116" });
    expect((await cinema().from("films").select("id").eq("id", 1).single().throwOnError()).data).toEqual({ id: 1 });
  });
});

test("the example of docs/errors.md names the fields of a refused insert", async () => {
  const guide = readFileSync(new URL("../../../docs/errors.md", import.meta.url), "utf8");
  const [, example] = /^```ts\n([^`]*supabase.*?)^```$/ms.exec(guide)!;
  const AsyncFunction = (async () => {}).constructor as new (...names: string[]) => (...given: any[]) => Promise<any>;
  const run = new AsyncFunction("supabase", `${stripTypeScriptTypes(example!)}; return faults`);
  expect((await run(clientAs("ada"))).map(({ field }: { field: string }) => field)).toEqual(["content", "title"]);
});
