import type { z } from "zod";
import { Html, html, timeOf, type Value } from "../../gate/pages/html.ts";
import { records } from "../../gate/pages/table.ts";
import type { AdminUserAnswer, UserListAnswer } from "../../rest-gateway/auth/admin-schemas.ts";
import { AdminApi, Refused, type SendRequest } from "./admin-api.ts";
import { type FormFault, marksOf, messageFor, selectField } from "./caller-form.ts";
import { csrfField, type Rendered, type View, type ViewInput } from "./console.ts";
import { DONE, ROLES, stateOf, submit, USERS, userPage } from "./user.ts";

type Users = z.infer<typeof UserListAnswer>;
type User = z.infer<typeof AdminUserAnswer>;

const PAGE_SIZE = 20;
/** The fields that have the message about them below. */
const MARKED = new Set(["name", "email", "username", "password", "handOverTo", "invited"]);

/** `/console/users`: the accounts, and, with `?id=`, one of them with all that an administrator may change. */
export const usersView = (send: SendRequest): View => ({
  path: USERS,
  name: "Users",
  icon: "users",
  hasForm: true,
  async render(input) {
    const { form, query } = input;
    const api = new AdminApi(send, input, USERS);
    const id = query.get("id");
    try {
      const refused = form && (await refusalOf(form, id, api));
      if (refused !== null && "location" in refused) return refused;
      const isMarked = refused?.field && MARKED.has(refused.field);
      const notice = refused === null ? doneText(query.get("done")) : isMarked ? null : refusalText(refused);
      return id === null
        ? await listPage(input, api, notice, refused)
        : await userPage(input, api, id, notice, refused);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return html`<h1>Users</h1>${refusalText(error)}<p><a href="${USERS}">All users</a></p>`;
    }
  },
});

/** Where the browser continues after a form, or why the form was refused. */
async function refusalOf(form: URLSearchParams, id: string | null, api: AdminApi) {
  try {
    return { location: await submit(form, id, api) };
  } catch (error) {
    if (error instanceof Refused) return error;
    throw error;
  }
}

const doneText = (name: string | null): Html | null =>
  name !== null && Object.hasOwn(DONE, name) ? html`<p class="notice" role="status">${DONE[name]!}</p>` : null;

const refusalText = ({ message, signIn }: Refused): Html =>
  html`<p class="alert" role="alert">${message}${signIn && html` <a href="${signIn}">Sign in again</a>`}</p>`;

async function listPage(
  { query, form, operator }: ViewInput,
  api: AdminApi,
  notice: Html | null,
  fault: FormFault | null,
): Promise<Rendered> {
  const search = query.get("q") ?? "";
  const asked = new URLSearchParams({
    ...(search !== "" && { q: search }),
    page: query.get("page") ?? "1",
    limit: String(PAGE_SIZE),
  });
  const { data, pagination } = await api.call<Users>("GET", `/auth/admin/users?${asked}`);
  const opened = (action: string) => new Html(form?.get("action") === action ? " open" : "");
  const count = `${pagination.total} ${pagination.total === 1 ? "user" : "users"}`;
  return html`
<h1>Users</h1>
${notice}
<form method="get" class="row" role="search">
<label for="q">Name, username, e-mail or id</label><input id="q" name="q" type="search" value="${search}" maxlength="200">
<button>Search</button>
</form>
<p class="muted">${search === "" ? `${count}, newest first.` : html`${count} found. <a href="${USERS}">Show all</a>`}</p>
${data.length === 0 ? html`<p class="empty">No user has this name, username, e-mail or id.</p>` : records(["Name", "E-mail", "Role", "State", "Last sign-in", "Created"], data.map(rowOf))}
${pagesOf(search, pagination)}
<details${opened("invite")}><summary>Invite a user</summary>
<form method="post" action="${USERS}" class="fields">
${csrfField(operator.csrf)}<input type="hidden" name="action" value="invite">
<label for="invited">E-mail to invite</label><input id="invited" name="invited" type="email" required maxlength="254" value="${form?.get("invited") ?? ""}" autocomplete="off"${marksOf("invited", fault)}>${messageFor("invited", fault)}
<p class="hint">The e-mail has a link to create an account, which is valid for seven days.</p>
<button>Send the invitation</button>
</form></details>
<details${opened("create")}><summary>Create a user</summary>
<form method="post" action="${USERS}" class="fields">
${csrfField(operator.csrf)}<input type="hidden" name="action" value="create">
${newUserFields(form, fault)}
<button>Create the user</button>
</form></details>`;
}

const rowOf = (user: User): Value[] => [
  html`<a href="${USERS}?id=${encodeURIComponent(user.id)}">${user.name}</a>`,
  user.email ?? html`<span class="muted">anonymous</span>`,
  user.role,
  stateOf(user),
  user.lastSignInAt && timeOf(user.lastSignInAt),
  timeOf(user.createdAt),
];

function pagesOf(search: string, { page, totalPages }: Users["pagination"]): Html | null {
  if (totalPages <= 1) return null;
  const link = (to: number, text: string) =>
    to < 1 || to > totalPages
      ? null
      : html`<a href="${USERS}?${new URLSearchParams({ ...(search !== "" && { q: search }), page: String(to) }).toString()}">${text}</a>`;
  return html`<nav class="row" aria-label="Pages of users">${link(page - 1, "Previous")}<span class="muted">Page ${page} of ${totalPages}</span>${link(page + 1, "Next")}</nav>`;
}

/** What the operator has entered stays after a mistake, without the password. */
function newUserFields(form: URLSearchParams | null, fault: FormFault | null): Html {
  const text = (name: string, label: string, more = "") =>
    html`<label for="${name}">${label}</label><input id="${name}" name="${name}" value="${form?.get(name) ?? ""}" autocomplete="off"${new Html(more)}${marksOf(name, fault)}>${messageFor(name, fault)}`;
  const isConfirmed = form?.has("emailConfirmed") ?? false;
  return html`${text("name", "Name", ' required maxlength="200"')}
${text("email", "E-mail", ' type="email" required maxlength="254"')}
${text("username", "Username, if the user has one", ' maxlength="254"')}
<label for="password">Password</label><input id="password" name="password" type="password" autocomplete="new-password" maxlength="128"${marksOf("password", fault) ?? html` aria-describedby="password-hint"`}>${messageFor("password", fault)}
<p class="hint" id="password-hint">Without one, the user sets it with “Forgot your password?”, or signs in with a provider. No e-mail is sent.</p>
${selectField({ name: "role", label: "Role", values: ROLES, value: form?.get("role") ?? ROLES[0]! })}
<p><label><input type="checkbox" name="emailConfirmed"${new Html(isConfirmed ? " checked" : "")}> The e-mail is known to be that of the user</label></p>`;
}
