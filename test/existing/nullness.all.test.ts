import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectId, startTrackit, type Trackit, taskId } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit();
});
afterAll(() => trackit.stop());

/** `Task.project` → `Project`; undefined without such a field. */
async function typeOf(field: string): Promise<string | undefined> {
  const [type, name] = field.split(".");
  const { data } =
    await trackit.gql(`{ __type(name: "${type}") { fields { name type { ...T } } inputFields { name type { ...T } } } }
    fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { name } } } }`);
  const fields = data.__type?.fields ?? data.__type?.inputFields ?? [];
  return textOf(fields.find((each: any) => each.name === name)?.type);
}
const textOf = (type: any): any =>
  type?.kind === "NON_NULL"
    ? `${textOf(type.ofType)}!`
    : type?.kind === "LIST"
      ? `[${textOf(type.ofType)}]`
      : type?.name;

describe("a row that a policy hides", () => {
  // Project 10 of organisation 1 is archived; user 5 belongs to organisation 1.
  test("is null where another row refers to it, and the other fields are read", async () => {
    const query = `{ tasks(filter: { id: { equalTo: "${taskId(10)}" } }) { edges { node { id project { name } } } } }`;
    const { data, errors } = await trackit.gql(query, { as: 5 });
    expect(errors).toBeUndefined();
    expect(data.tasks.edges).toEqual([{ node: { id: taskId(10), project: null } }]);
  });

  test("is null over a mutation too", async () => {
    const { data, errors } = await trackit.gql(
      `mutation { updateTask(id: "${taskId(10)}", input: { title: "Renamed" }) { title project { name } } }`,
      { as: 5 },
    );
    expect(errors).toBeUndefined();
    expect(data.updateTask).toEqual({ title: "Renamed", project: null });
  });
});

describe("a field that refers to one row", () => {
  test.each([
    ["Task.project", "Project"],
    ["Task.assignee", "User"],
    ["Member.user", "User"],
    ["OpenTask.project", "Project"],
    ["Task.projectOwner", "User"],
    ["PlanFeature.planByPlanCode", "Plan!"],
  ])("%s: %s", async (field, type) => expect(await typeOf(field)).toBe(type));

  test.each([
    ["alter table plans enable row level security", "Plan"],
    ["create policy everyone on plans for select using (true)", "Plan!"],
    ["create policy expensive on plans as restrictive for select to trackit_user using (price_cents > 0)", "Plan"],
    ["comment on constraint plan_features_plan_code_fkey on plan_features is '@notNull'", "Plan!"],
    ["comment on constraint plan_features_plan_code_fkey on plan_features is null", "Plan"],
    ["drop policy expensive on plans; create policy expensive on plans to trackit_support using (false)", "Plan!"],
    ["revoke select on plans from trackit_anon", "Plan"],
    ["grant select (code) on plans to trackit_anon", "Plan!"],
    ["revoke select (code) on plans from trackit_anon", "Plan"],
    // A caller who cannot read the reference does not count.
    ["revoke select on plan_features from trackit_anon", "Plan!"],
    ["drop policy everyone on plans", "Plan"],
    ["alter table plans disable row level security", "Plan!"],
    [
      `alter table plan_features drop constraint plan_features_plan_code_fkey,
        add foreign key (plan_code) references plans on delete cascade not valid`,
      "Plan",
    ],
  ])("%s: %s", async (sql, type) => {
    await trackit.change(sql);
    await expect.poll(() => typeOf("PlanFeature.planByPlanCode")).toBe(type);
  });
});

describe("an input requires", () => {
  test.each([
    // Only the support may insert it.
    ["CreateTaskInput.number", undefined],
    // A trigger fills it.
    ["CreateTaskInput.organisationId", "ID"],
    ["CreateTaskInput.title", "String!"],
    ["CreateTaskInput.status", "TaskStatus"],
    ["CreateProjectInput.key", "String!"],
    ["CreateProjectInput.organisationId", "ID!"],
  ])("%s: %s", async (field, type) => expect(await typeOf(field)).toBe(type));

  test("a row can be created without what a trigger fills", async () => {
    const { data, errors } = await trackit.gql(
      `mutation { createTask(input: { projectId: "${projectId(5)}", title: "New" }) { number title organisation { slug } } }`,
      { as: 5 },
    );
    expect(errors).toBeUndefined();
    expect(data.createTask).toEqual({ number: 13, title: "New", organisation: { slug: "org-1" } });
  });

  test("no column that one of the roles may not insert", async () => {
    const title = () => typeOf("CreateTaskInput.title");
    await trackit.change("grant insert (project_id) on tasks to trackit_anon");
    await expect.poll(title).toBe("String");
    await trackit.change("grant insert (title) on tasks to trackit_anon");
    await expect.poll(title).toBe("String!");
  });
});

describe("the schema leaves out", () => {
  test("what only a role that bypasses policies may use", async () => {
    expect(await typeOf("ApiToken.id")).toBeUndefined();
    expect(await typeOf("User.bcrypt")).toBeUndefined();
    expect(await typeOf("User.email")).toBe("String!");
  });

  test("what only the owner of the tables may use", async () => {
    await trackit.change("grant trackit_owner to trackit_api; comment on table users is 'People.'");
    const about = async () => (await trackit.gql('{ __type(name: "User") { description } }')).data.__type.description;
    await expect.poll(about).toBe("People.");
    expect(await typeOf("ApiToken.id")).toBeUndefined();
  });
});
