import { generateKeyPairSync } from "node:crypto";
import jwt from "jsonwebtoken";
import { testApplication } from "./application-tests.ts";
import { KEYLESS } from "./deliveries.ts";

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const KEYS = { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "2026", alg: "RS256", use: "sig" }] };
const person = (tenant: number, id: number, role = "planner_Member") => ({
  tenant: `00000000-0000-4000-a000-00000000000${tenant}`,
  person: id,
  realm: { role },
});

testApplication({
  files: ["applications/planner.sql"],
  prefix: "planner_",
  login: "planner_Api",
  feed: "planner_feed",
  schemas: ["planner", "reports"],
  settings: {
    DB_SCHEMAS: "planner, reports",
    DB_ANON_ROLE: "planner_Anonymous",
    JWT_SECRET: JSON.stringify(KEYS),
    JWT_ROLE_CLAIM: ".realm.role",
  },
  sign: (claims) => jwt.sign(claims, privateKey, { algorithm: "RS256", keyid: "2026" }),
  callers: {
    "an anonymous caller": undefined,
    "a member of every project": person(1, 1),
    "a member without the private project": person(1, 3),
    "the manager of another tenant": person(2, 10, "planner_Manager"),
    "a robot": person(3, 17, "planner_Robot"),
  },
  anonClaims: { realm: { role: "planner_Anonymous" } },
  roleOf: (claims: any) => claims?.realm.role ?? "planner_Anonymous",
  functions: [
    {
      as: "a member of every project",
      rest: "rpc/my_issues?select=ref",
      gql: "{ myIssues(first: 50) { edges { node { ref } } } }",
      result: ({ myIssues }) => myIssues.edges.map(({ node }: any) => node),
    },
    {
      as: "a member without the private project",
      rest: "rpc/velocity?project=WEB&select=sprint,points::text",
      gql: '{ velocity(project: "WEB") { edges { node { sprint points } } } }',
      result: ({ velocity }) => velocity.edges.map(({ node }: any) => node),
    },
    {
      as: "the manager of another tenant",
      rest: "projects?select=key,n:projects_open_issues&order=key",
      gql: "{ projects(orderBy: [KEY_ASC]) { edges { node { key openIssues } } } }",
      result: ({ projects }) => projects.edges.map(({ node }: any) => ({ key: node.key, n: Number(node.openIssues) })),
    },
  ],
  steps: [
    {
      as: "a member of every project",
      gql: 'mutation { createIssue(input: { projectKey: "HR", title: "New", points: "2.5" }) { ref points personByTenantIdAndReporterId { name } projectByTenantIdAndProjectKey { name } } }',
      data: {
        createIssue: {
          ref: "HR-11",
          points: "2.5",
          personByTenantIdAndReporterId: { name: "Person 1" },
          projectByTenantIdAndProjectKey: { name: "Project 4" },
        },
      },
    },
    {
      as: "a member without the private project",
      rest: "POST issues",
      body: { project_key: "HR", title: "No" },
      status: 403,
    },
    {
      as: "a member without the private project",
      rest: "POST issues?select=ref,reporter_id",
      body: [
        { project_key: "WEB", title: "One" },
        { project_key: "WEB", title: "Two" },
      ],
      status: 201,
      json: [
        { ref: "WEB-11", reporter_id: 3 },
        { ref: "WEB-12", reporter_id: 3 },
      ],
    },
    {
      as: "a member without the private project",
      rest: "PATCH issues?project_key=eq.WEB&number=eq.12&select=ref",
      body: { sprint: 9 },
      status: 409,
    },
    {
      as: "a member without the private project",
      gql: 'mutation { finishIssue(project: "WEB", issue: 12) { isDone } }',
      data: { finishIssue: { isDone: true } },
    },
    {
      as: "a member without the private project",
      gql: 'mutation { finishIssue(project: "HR", issue: 1) { isDone } }',
      codes: ["RESOURCE_NOT_FOUND"],
    },
    {
      as: "a member without the private project",
      gql: `mutation { deleteIssue(tenantId: "00000000-0000-4000-a000-000000000001", projectKey: "WEB", number: "12") }`,
      data: { deleteIssue: true },
    },
    {
      as: "the manager of another tenant",
      rest: "PATCH projects?key=eq.OPS&select=name,days",
      body: { name: "Operations", ends_on: "2026-09-14" },
      status: 200,
      json: [{ name: "Operations", days: 10 }],
    },
    { as: "the manager of another tenant", rest: "POST people", body: { email: "nobody", name: "No" }, status: 400 },
    {
      as: "a robot",
      rest: "POST inbox",
      body: { tenant_id: "00000000-0000-4000-a000-000000000003", payload: { a: 1 } },
      status: 201,
    },
    { as: "a robot", rest: "GET issues", status: 403 },
    {
      as: "a member of every project",
      rest: "GET burndown?project_key=eq.WEB&sprint=eq.1&select=issues,done",
      schema: "reports",
      status: 200,
    },
    { as: "an anonymous caller", rest: "GET issues", status: 401 },
  ],
  changes: [
    {
      table: "planner.issues",
      as: "a member of every project",
      sql: [
        "insert into planner.issues (tenant_id, project_key, number, title, reporter_id) values ('00000000-0000-4000-a000-000000000001', 'HR', 900, 'New', 1)",
        "update planner.issues set is_done = true where number = 900",
        "delete from planner.issues where number = 900",
      ],
    },
    {
      table: "planner.projects",
      as: "a member of every project",
      sql: [
        "insert into planner.projects (tenant_id, key, name) values ('00000000-0000-4000-a000-000000000001', 'NEW', 'New')",
        "update planner.projects set name = 'Newer' where key = 'NEW'",
        "delete from planner.projects where key = 'NEW'",
      ],
      refused: { DELETE: ["old rows are logged without is_private"] },
    },
    {
      table: "planner.comments",
      as: "a member of every project",
      sql: [
        "insert into planner.comments (tenant_id, project_key, number, author_id, body) values ('00000000-0000-4000-a000-000000000001', 'WEB', 1, 2, 'Live')",
        "update planner.comments set body = 'Lively' where body = 'Live'",
        "delete from planner.comments where body = 'Lively'",
      ],
    },
    {
      table: "planner.worklog",
      as: "a member of every project",
      sql: [
        "insert into planner.worklog values ('00000000-0000-4000-a000-000000000001', 1, 'WEB', 1, '2026-11-20', 15)",
        "update planner.worklog set minutes = 20 where day = '2026-11-20'",
        "delete from planner.worklog where day = '2026-11-20'",
      ],
    },
    {
      table: "planner.inbox",
      as: "a robot",
      sql: [
        "insert into planner.inbox values ('00000000-0000-4000-a000-000000000003', '2026-11-20', '{}')",
        "update planner.inbox set payload = '[]' where payload = '{}'",
        "delete from planner.inbox where payload = '[]'",
      ],
      refused: KEYLESS,
    },
  ],
  findings: {
    "changes-not-published table planner.inbox": "it has no key",
    "deletes-not-delivered table planner.projects": "its policy reads a column beside the key",
    "check-without-message constraint issues_title_check on planner.issues": "it has no comment",
    "check-without-message constraint projects_key_check on planner.projects": "it has no comment",
    "check-without-message constraint worklog_minutes_check on planner.worklog": "it has no comment",
    "table-without-primary-key table planner.inbox": "what robots deliver",
  },
});
