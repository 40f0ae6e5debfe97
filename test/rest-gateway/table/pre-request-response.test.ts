import { expect, test } from "vitest";
import { type RestSent, useRest } from "../../support/rest-client.ts";

const { rest } = useRest(
  { DB_SCHEMAS: "replies", DB_PRE_REQUEST: "replies.before_each" },
  `create schema replies;
   create function replies.before_each() returns void language plpgsql as $$
   declare asked json := current_setting('request.headers')::json;
   begin
     perform set_config('response.headers', coalesce(asked ->> 'x-reply', '[{"X-Before": "yes"}]'), true);
     perform set_config('response.status', coalesce(asked ->> 'x-status', ''), true);
   end $$;
   create table replies.orders (id int primary key, what text);
   insert into replies.orders values (1, 'tea'), (2, 'milk');
   create view replies.order_list as select * from replies.orders;
   create function replies.add(a int, b int) returns int language sql immutable as 'select a + b';
   create function replies.keep(a int) returns int language sql volatile as 'select a';
   create function replies.list() returns setof replies.orders language sql stable as 'select * from replies.orders';
   create function replies.nothing() returns void language sql volatile as '';
   grant usage on schema replies to anon;
   grant all on replies.orders, replies.order_list to anon;
   grant execute on all functions in schema replies to anon;`,
);

const REQUESTS: readonly [name: string, path: string, sent?: RestSent][] = [
  ["GET", "orders"],
  ["GET of one object", "orders?id=eq.1", { headers: { accept: "application/vnd.pgrst.object+json" } }],
  ["GET of CSV", "orders", { headers: { accept: "text/csv" } }],
  ["GET of a view", "order_list"],
  ["GET with a total", "orders?limit=1", { prefer: "count=exact" }],
  ["GET with an estimate", "orders", { prefer: "count=planned" }],
  ["HEAD", "orders", { method: "HEAD" }],
  ["HEAD with a total", "orders?limit=1", { method: "HEAD", prefer: "count=exact" }],
  ["HEAD with an estimate", "orders", { method: "HEAD", prefer: "count=planned" }],
  ["POST", "orders", { body: { id: 10 } }],
  ["POST of no rows", "orders", { body: [] }],
  ["POST with the row", "orders", { body: { id: 11 }, prefer: "return=representation" }],
  ["POST with Location", "orders", { body: { id: 12 }, prefer: "return=headers-only" }],
  ["an upsert", "orders", { body: { id: 1 }, prefer: "resolution=merge-duplicates" }],
  ["PATCH", "orders?id=eq.1", { method: "PATCH", body: { what: "water" } }],
  ["PATCH of nothing", "orders?id=eq.1", { method: "PATCH", body: {} }],
  ["PATCH with the row", "orders?id=eq.1", { method: "PATCH", body: { what: "a" }, prefer: "return=representation" }],
  ["PUT", "orders?id=eq.20", { method: "PUT", body: { id: 20, what: "x" } }],
  ["DELETE", "orders?id=eq.20", { method: "DELETE" }],
  ["DELETE with the row", "orders?id=eq.2", { method: "DELETE", prefer: "return=representation" }],
  ["GET of a function", "rpc/add?a=1&b=2"],
  ["HEAD of a function", "rpc/add?a=1&b=2", { method: "HEAD" }],
  ["POST of a function", "rpc/add", { body: { a: 1, b: 2 } }],
  ["POST of a volatile function", "rpc/keep", { body: { a: 1 } }],
  ["GET of a function with rows", "rpc/list"],
  ["HEAD of a function with rows", "rpc/list", { method: "HEAD" }],
  ["POST of a void function", "rpc/nothing", { body: {} }],
];
const REPLY = JSON.stringify([{ "Content-Type": "text/x-own" }, { "Cache-Control": "max-age=9" }, { "X-Own": "1" }]);

test.each(REQUESTS)(
  "the pre-request function sets the status and headers of %s, Content-Type included",
  async (_name, path, sent = {}) => {
    const answer = await rest(path, { ...sent, headers: { ...sent.headers, "X-Reply": REPLY, "X-Status": "418" } });
    const { headers } = answer;
    expect([answer.status, headers.get("x-own"), headers.get("cache-control"), headers.get("content-type")]).toEqual([
      418,
      "1",
      "max-age=9",
      "text/x-own",
    ]);
  },
);
