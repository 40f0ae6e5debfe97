import { testApplication } from "./application-tests.ts";
import { KEYLESS } from "./deliveries.ts";
import { claimsOf, organisationId, projectId, TRACKIT, taskId, userId } from "./trackit.ts";

testApplication({
  ...TRACKIT,
  feed: "trackit_feed",
  schemas: ["public"],
  callers: {
    "an anonymous caller": undefined,
    "user 1": claimsOf(1),
    "user 5": claimsOf(5),
    "user 10": claimsOf(10),
    "a guest of another organisation": claimsOf(19),
  },
  anonClaims: { role: "trackit_anon" },
  roleOf: (claims: any) => claims?.role ?? "trackit_anon",
  functions: [
    {
      as: "user 5",
      rest: "rpc/search_tasks?q=deploy&select=id&order=id",
      gql: '{ searchTasks(q: "deploy", first: 100) { edges { node { id } } } }',
      result: ({ searchTasks }) =>
        searchTasks.edges.map(({ node }: any) => node).sort((a: any, b: any) => (a.id < b.id ? -1 : 1)),
    },
    {
      as: "user 5",
      rest: `rpc/organisation_stats?organisation=${organisationId(1)}`,
      gql: `{ organisationStats(organisation: "${organisationId(1)}", first: 10) { edges { node { status n } } } }`,
      result: ({ organisationStats }) =>
        organisationStats.edges.map(({ node }: any) => ({ status: node.status, n: Number(node.n) })),
    },
  ],
  steps: [
    // A trigger fills the organisation and the number.
    {
      as: "user 5",
      rest: "POST tasks?select=number,organisation_id",
      body: { project_id: projectId(5), title: "New" },
      status: 201,
      json: [{ number: 13, organisation_id: organisationId(1) }],
    },
    { as: "user 1", rest: "POST tasks?select=id", body: { project_id: projectId(5), title: "New" }, status: 403 },
    {
      as: "user 5",
      gql: `mutation { closeTask(taskId: "${taskId(10)}", comment: "Done.") { status comments { body } } }`,
      data: { closeTask: { status: "done", comments: [{ body: "Done." }] } },
    },
    { as: "user 1", gql: `mutation { closeTask(taskId: "${taskId(10)}") { status } }`, codes: ["RESOURCE_NOT_FOUND"] },
    { as: "an anonymous caller", rest: "DELETE plans?code=eq.free", status: 401 },
  ],
  changes: [
    {
      table: "public.plans",
      as: "an anonymous caller",
      sql: [
        "insert into plans (code, title, price_cents) values ('new', 'New', 1)",
        "update plans set title = 'Newer' where code = 'new'",
        "delete from plans where code = 'new'",
      ],
    },
    {
      table: "public.task_watchers",
      as: "user 5",
      sql: [
        `insert into task_watchers values ('${taskId(1)}', '${userId(5)}')`,
        `update task_watchers set task_id = '${taskId(2)}' where task_id = '${taskId(1)}' and user_id = '${userId(5)}'`,
        `delete from task_watchers where task_id = '${taskId(2)}' and user_id = '${userId(5)}'`,
      ],
    },
    {
      table: "public.import_staging",
      as: "user 5",
      sql: [
        "insert into import_staging (line) values (900)",
        "update import_staging set is_done = true where line = 900",
        "delete from import_staging where line = 900",
      ],
      refused: KEYLESS,
    },
  ],
  findings: {
    "changes-not-published table public.import_staging": "it has no key",
    "deletes-not-delivered table public.attachments": "its policy reads a column beside the key",
    "deletes-not-delivered table public.audit_log": "its policy reads a column beside the key",
    "deletes-not-delivered table public.comments": "its policy reads a column beside the key",
    "deletes-not-delivered table public.invoices": "its policy reads a column beside the key",
    "changes-not-checked table public.projects":
      "its policy reads a generated column, which PostgreSQL 15 does not send",
    "deletes-not-delivered table public.tasks": "its policy reads a column beside the key",
    "check-without-message constraint attachments_check on public.attachments": "it has no comment",
    "check-without-message constraint attachments_size_bytes_check on public.attachments": "it has no comment",
    "check-without-message constraint comments_body_check on public.comments": "it has no comment",
    "check-without-message constraint organisations_plan_check on public.organisations": "it has no comment",
    "check-without-message constraint projects_key_check on public.projects": "it has no comment",
    "check-without-message constraint tasks_priority_check on public.tasks": "it has no comment",
    "check-without-message constraint tasks_title_check on public.tasks": "it has no comment",
    "extension-in-served-schema extension citext": "it was created in public",
    "extension-in-served-schema extension pg_trgm": "it was created in public",
    "foreign-key-without-index constraint api_tokens_user_id_fkey on public.api_tokens": "there is none",
    "foreign-key-without-index constraint attachments_organisation_id_fkey on public.attachments": "there is none",
    "foreign-key-without-index constraint attachments_uploaded_by_fkey on public.attachments": "there is none",
    "foreign-key-without-index constraint comments_organisation_id_fkey on public.comments": "there is none",
    "foreign-key-without-index constraint task_watchers_user_id_fkey on public.task_watchers": "there is none",
    "function-reads-closed-columns function public.me()": "another application calls it as the owner",
    "login-bypasses-row-security role trackit_support": "tokens of the support name it",
    "relation-without-policies materialized view public.project_stats": "the support reads it",
    "table-without-primary-key table public.import_staging": "rows of a job",
    "table-without-row-security table public.import_staging": "no policy is meant",
    "table-without-row-security table public.plan_features": "no policy is meant",
    "table-without-row-security table public.plans": "no policy is meant",
    "view-without-security-invoker view public.organisation_billing": "it filters for itself",
  },
});
