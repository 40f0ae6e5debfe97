import jwt from "jsonwebtoken";
import { expect } from "vitest";
import { testApplication } from "./application-tests.ts";

const SECRET = "the secret of the forum, long enough for HS512";
const member = (sub: string, role = "Forum_Member") => ({ sub, aud: ["forum", "wiki"], app_metadata: { role } });

testApplication({
  files: ["applications/forum.sql"],
  prefix: "Forum_",
  login: "Forum_Api",
  feed: "Forum_Feed",
  schemas: ["public"],
  settings: { DB_ANON_ROLE: "Forum_Guest", JWT_SECRET: SECRET, JWT_AUD: "forum", JWT_ROLE_CLAIM: "app_metadata.role" },
  sign: (claims) => jwt.sign(claims, SECRET),
  callers: {
    "a guest": undefined,
    "a new member": member("user5"),
    "a trusted member": member("user3"),
    "a suspended member": member("user16"),
    "a moderator": member("user4", "Forum_Moderator"),
  },
  anonClaims: { aud: "forum", app_metadata: { role: "Forum_Guest" } },
  roleOf: (claims: any) => claims?.app_metadata.role ?? "Forum_Guest",
  functions: [
    {
      as: "a guest",
      rest: "rpc/search_posts?query=manual&select=id",
      gql: '{ searchPosts(query: "manual", first: 100) { edges { node { id } } } }',
      result: ({ searchPosts }) => searchPosts.edges.map(({ node }: any) => node),
    },
    {
      as: "a trusted member",
      rest: "rpc/hot_topics?since=2026-11-25&select=views",
      gql: '{ hotTopics(since: "2026-11-25") { edges { node { views } } } }',
      result: ({ hotTopics }) => hotTopics.edges.map(({ node }: any) => ({ views: Number(node.views) })),
    },
    {
      as: "a new member",
      rest: "rpc/me?select=username,n:members_post_count",
      gql: "{ me { username postCount } }",
      result: ({ me }) => ({ username: me.username, n: Number(me.postCount) }),
    },
  ],
  steps: [
    {
      as: "a new member",
      gql: 'mutation { createTopic(input: { categorySlug: "help", title: "How do I start?", tags: ["t9"] }) { slug state postCount memberByAuthor { username } } }',
      data: {
        createTopic: { slug: "how-do-i-start", state: "open", postCount: 0, memberByAuthor: { username: "user5" } },
      },
    },
    { as: "a new member", rest: "POST topics", body: { category_slug: "staff", title: "Hidden" }, status: 403 },
    {
      as: "a new member",
      rest: "POST topics",
      body: { category_slug: "help", title: "No" },
      status: 400,
      json: expect.objectContaining({ code: "23514", hint: "title must have 3 to 200 characters" }),
    },
    {
      as: "a new member",
      rest: "POST posts?select=number,words,author",
      body: { topic_id: "00000000-0000-4000-a000-000000000001", body: "one two three" },
      status: 201,
      json: [{ number: 5, words: 3, author: "user5" }],
    },
    {
      as: "a suspended member",
      rest: "POST posts",
      body: { topic_id: "00000000-0000-4000-a000-000000000001", body: "no" },
      status: 403,
    },
    {
      as: "a trusted member",
      gql: 'mutation { createBookmark(input: { topicId: "00000000-0000-4000-a000-000000000005", note: "read" }) { username note } }',
      data: { createBookmark: { username: "user3", note: "read" } },
    },
    {
      as: "a trusted member",
      rest: "PATCH members?username=eq.user3&select=display_name",
      body: { display_name: "Three" },
      status: 200,
      json: [{ display_name: "Three" }],
    },
    {
      as: "a trusted member",
      rest: "PATCH members?username=eq.user5&select=display_name",
      body: { display_name: "Five" },
      status: 200,
      json: [],
    },
    {
      as: "a trusted member",
      gql: 'mutation { closeTopic(topic: "00000000-0000-4000-a000-000000000001") { id } }',
      codes: ["PERMISSION_DENIED"],
    },
    {
      as: "a moderator",
      gql: 'mutation { updateTopic(id: "00000000-0000-4000-a000-000000000001", input: { state: closed }) { state } }',
      data: { updateTopic: { state: "closed" } },
    },
    {
      as: "a moderator",
      rest: "POST moderation_log?select=action",
      body: { moderator: "user4", action: "close", subject: "topic 1" },
      status: 201,
      json: [{ action: "close" }],
    },
    { as: "a guest", rest: "POST posts", body: { body: "no" }, status: 401 },
  ],
  changes: [
    {
      table: "public.topics",
      as: "a guest",
      sql: [
        "insert into topics (id, category_slug, title) values ('00000000-0000-4000-a000-000000000900', 'general', 'News')",
        "update topics set title = 'More news' where id = '00000000-0000-4000-a000-000000000900'",
        "delete from topics where id = '00000000-0000-4000-a000-000000000900'",
      ],
      refused: { DELETE: ["old rows are logged without"] },
    },
    {
      table: "public.reactions",
      as: "a guest",
      sql: [
        "insert into reactions values ('00000000-0000-4000-b000-000000000001', 'user1', 'wave')",
        "update reactions set created_at = '2026-11-11' where emoji = 'wave'",
        "delete from reactions where emoji = 'wave'",
      ],
    },
    {
      table: "public.bookmarks",
      as: "a new member",
      sql: [
        "insert into bookmarks values ('user5', '00000000-0000-4000-a000-000000000001')",
        "update bookmarks set note = 'again' where username = 'user5' and topic_id = '00000000-0000-4000-a000-000000000001'",
        "delete from bookmarks where username = 'user5' and topic_id = '00000000-0000-4000-a000-000000000001'",
      ],
    },
    {
      table: "public.messages",
      as: "a trusted member",
      sql: [
        "insert into messages (id, conversation_id, author, body) values ('00000000-0000-4000-d000-000000000900', '00000000-0000-4000-c000-000000000003', 'user3', 'Yes?')",
        "update messages set body = 'No.' where id = '00000000-0000-4000-d000-000000000900'",
        "delete from messages where id = '00000000-0000-4000-d000-000000000900'",
      ],
      refused: { DELETE: ["old rows are logged without conversation_id"] },
    },
    {
      table: "public.page_views",
      as: "a guest",
      sql: [
        "insert into page_views values ('00000000-0000-4000-a000-000000000005', '2026-12-12', 1)",
        "update page_views set views = 2 where day = '2026-12-12'",
        "delete from page_views where day = '2026-12-12'",
      ],
    },
  ],
  findings: {
    "changes-not-published table public.moderation_log": "it has no key",
    "deletes-not-delivered table public.categories": "its policy reads a column beside the key",
    "deletes-not-delivered table public.flags": "its policy reads a column beside the key",
    "deletes-not-delivered table public.members": "its policy reads a column beside the key",
    "deletes-not-delivered table public.messages": "its policy reads a column beside the key",
    "deletes-not-delivered table public.posts": "its policy reads a column beside the key",
    "deletes-not-delivered table public.topics": "its policy reads a column beside the key",
    "check-without-message constraint members_trust_check on public.members": "it has no comment",
    "check-without-message constraint members_username_check on public.members": "it has no comment",
    "check-without-message constraint posts_body_check on public.posts": "it has no comment",
    "function-past-policies function public.close_topic(uuid)": "it checks the author itself",
    "function-past-policies function public.me()": "members may read their own row",
    "table-without-primary-key table public.moderation_log": "a log",
  },
});
