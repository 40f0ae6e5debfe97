import type { z } from "zod";
import { badge, Html, html, timeOf } from "../../gate/pages/html.ts";
import type { AdminUserAnswer } from "../../rest-gateway/auth/admin-schemas.ts";
import { type AdminApi, Refused } from "./admin-api.ts";
import { type FormFault, marksOf, messageFor, selectField } from "./caller-form.ts";
import { csrfField, type ViewInput } from "./console.ts";
import { EVENTS } from "./events.ts";
import { CONSOLE } from "./path.ts";

export const USERS = `${CONSOLE}/users`;

export const ROLES: readonly string[] = ["authenticated", "admin"];

type User = z.infer<typeof AdminUserAnswer>;

/** What an operator has done, as the page says it that the browser continues at. */
export const DONE: Readonly<Record<string, string>> = {
  create: "The user is created.",
  invite: "An e-mail is on its way, with a link to create an account.",
  change: "The changes are saved.",
  disable: "The account is disabled, and signed out everywhere.",
  enable: "The account is enabled.",
  "sign-out": "The user is signed out everywhere. API keys remain valid.",
  "reset-factors": "The second factors are removed.",
  delete: "The user is deleted.",
};

type Action = (form: URLSearchParams, path: string, api: AdminApi) => Promise<unknown>;

/** The requests of the buttons of a user. */
const ACTIONS: Readonly<Record<string, Action>> = {
  change: changeUser,
  disable: (_form, path, api) => api.call("PATCH", path, { disabled: true }),
  enable: (_form, path, api) => api.call("PATCH", path, { disabled: false }),
  "sign-out": (_form, path, api) => api.call("DELETE", `${path}/sessions`),
  "reset-factors": (_form, path, api) => api.call("DELETE", `${path}/factors`),
  delete: deleteUser,
};

/** Does what the form says, and returns where the browser continues. Rejects with Refused. */
export async function submit(form: URLSearchParams, id: string | null, api: AdminApi): Promise<string> {
  const name = form.get("action") ?? "";
  if (id === null && name === "invite") {
    await invite(form, api);
    return `${USERS}?done=invite`;
  }
  if (id === null) {
    const created = await createUser(form, api);
    return `${USERS}?${new URLSearchParams({ id: String(created.id), done: "create" })}`;
  }
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name]! : null;
  if (action === null) throw new Refused("Choose one of the buttons.");
  await action(form, pathOf(id), api);
  return `${USERS}?${new URLSearchParams({ ...(name !== "delete" && { id }), done: name })}`;
}

const pathOf = (id: string) => `/auth/admin/users/${encodeURIComponent(id)}`;

function createUser(form: URLSearchParams, api: AdminApi): Promise<User> {
  const given = ["name", "email", "username", "password", "role"].flatMap((name) => {
    const value = form.get(name) ?? "";
    return value === "" ? [] : [[name, value]];
  });
  const emailConfirmed = form.has("emailConfirmed");
  return api.call("POST", "/auth/admin/users", { ...Object.fromEntries(given), emailConfirmed });
}

async function invite(form: URLSearchParams, api: AdminApi): Promise<void> {
  try {
    await api.call("POST", "/auth/invitations", { email: form.get("invited")?.trim() ?? "" });
  } catch (error) {
    if (error instanceof Refused && error.field === "email") throw new Refused(error.message, { field: "invited" });
    throw error;
  }
}

/** Sends what differs from the account. */
async function changeUser(form: URLSearchParams, path: string, api: AdminApi): Promise<void> {
  const { email, role, emailConfirmed } = await api.call<User>("GET", path);
  const [newEmail, newRole] = [form.get("email")?.trim() ?? "", form.get("role")];
  const changes = {
    ...(newEmail !== "" && newEmail !== email && { email: newEmail }),
    ...(newRole !== null && newRole !== role && { role: newRole }),
    ...(form.has("emailConfirmed") && !emailConfirmed && { emailConfirmed: true }),
  };
  if (Object.keys(changes).length > 0) await api.call("PATCH", path, changes);
}

async function deleteUser(form: URLSearchParams, path: string, api: AdminApi): Promise<void> {
  if (!form.has("sure")) throw new Refused("Confirm that the user is to be deleted: this cannot be undone.");
  const successor = form.get("handOverTo")?.trim() ?? "";
  const isHandedOver = form.get("data") === "handOver";
  if (isHandedOver && successor === "")
    throw new Refused("Enter the id of the user who gets the data.", { field: "handOverTo" });
  await api.call("DELETE", isHandedOver ? `${path}?${new URLSearchParams({ handOverTo: successor })}` : path);
}

/** The page of one user. Rejects with Refused if there is none. */
export async function userPage(
  { form, operator }: ViewInput,
  api: AdminApi,
  id: string,
  notice: Html | null,
  fault: FormFault | null,
): Promise<Html> {
  const user = await api.call<User>("GET", pathOf(id));
  const begin = (
    action: string,
    look = "",
  ) => html`<form method="post" action="${USERS}?id=${encodeURIComponent(id)}"${new Html(look)}>
${csrfField(operator.csrf)}<input type="hidden" name="action" value="${action}">`;
  const button = (action: string, text: string, look = "quiet") =>
    html`${begin(action, ' class="inline"')}<button class="${look}">${text}</button></form> `;
  return html`
<p><a href="${USERS}">All users</a></p>
<h1>${user.name}</h1>
${notice}
${profileOf(user)}
<p><a href="${EVENTS}?user=${encodeURIComponent(id)}">Security events of this user</a></p>
<h2>Sign-in</h2>
<div class="row">
${user.disabled ? button("enable", "Enable the account") : button("disable", "Disable the account", "danger")}
${button("sign-out", "Sign out everywhere")}
${user.mfaEnabled ? button("reset-factors", "Remove the second factors", "danger") : null}
</div>
<h2>Account</h2>
${begin("change", ' class="fields"')}
<label for="email">E-mail that the user signs in with</label><input id="email" name="email" type="email" autocomplete="off" maxlength="254" value="${enteredIn(form, "email") ?? user.email ?? ""}"${marksOf("email", fault)}>${messageFor("email", fault)}
${selectField({ name: "role", label: "Role", values: rolesOf(user), value: enteredIn(form, "role") ?? user.role })}
<p class="hint">Another role ends all sign-ins of the user.</p>
${user.emailConfirmed ? null : html`<p><label><input type="checkbox" name="emailConfirmed"> The e-mail is known to be that of the user</label></p>`}
<button>Save</button>
</form>
<h2>Delete</h2>
${begin("delete", ' class="fields"')}
${deletionFields(form, fault)}
<button class="danger">Delete the user</button>
</form>`;
}

/** What the operator has entered in the form of this action. */
const enteredIn = (form: URLSearchParams | null, name: string): string | null =>
  form?.get("action") === "change" ? form.get(name) : null;

const rolesOf = ({ role }: User): readonly string[] => (ROLES.includes(role) ? ROLES : [role, ...ROLES]);

export const stateOf = ({ disabled, mfaEnabled, email, emailConfirmed }: User): Html =>
  html`${[
    disabled ? badge("disabled", "bad") : badge("enabled", "good"),
    email !== null && !emailConfirmed ? badge("e-mail not confirmed", "warn") : null,
    mfaEnabled ? badge("second factor", "muted") : null,
  ].map((each) => each && html`${each} `)}`;

const profileOf = (user: User): Html => html`<dl class="profile">
<div><dt>Id</dt><dd><code>${user.id}</code></dd></div>
<div><dt>E-mail</dt><dd>${user.email ?? html`<span class="muted">none: an anonymous user</span>`}</dd></div>
<div><dt>Username</dt><dd>${user.username ?? html`<span class="muted">none</span>`}</dd></div>
<div><dt>State</dt><dd>${stateOf(user)}</dd></div>
<div><dt>Password</dt><dd>${user.hasPassword ? "set" : "none"}</dd></div>
<div><dt>Permissions</dt><dd>${user.permissions.length === 0 ? "none" : user.permissions.map((each) => html`<code>${each}</code> `)}</dd></div>
<div><dt>Created</dt><dd>${timeOf(user.createdAt)}</dd></div>
<div><dt>Last sign-in</dt><dd>${user.lastSignInAt === null ? "not signed in now" : timeOf(user.lastSignInAt)}</dd></div>
</dl>`;

function deletionFields(form: URLSearchParams | null, fault: FormFault | null): Html {
  const isHandedOver = form?.get("data") === "handOver";
  const choice = (value: string, isChosen: boolean, text: string) =>
    html`<label><input type="radio" name="data" value="${value}"${new Html(isChosen ? " checked" : "")}> ${text}</label>`;
  return html`<fieldset><legend>The rows of all tables that refer to the user</legend>
<p>${choice("delete", !isHandedOver, "are deleted")}</p>
<p class="row">${choice("handOver", isHandedOver, "are handed over to another user")}
<label for="handOverTo">with the id</label><input id="handOverTo" name="handOverTo" value="${form?.get("handOverTo") ?? ""}" maxlength="200"${marksOf("handOverTo", fault)}></p>${messageFor("handOverTo", fault)}
</fieldset>
<p><label><input type="checkbox" name="sure" required> Delete this user. This cannot be undone.</label></p>`;
}
