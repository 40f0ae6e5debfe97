import { QuestionFault } from "../db/advisor/asked-change.ts";
import { anonymous, type Caller } from "../db/caller.ts";
import type { Role } from "../db/catalog/catalog.ts";
import { Html, html } from "../http/pages/html.ts";
import { type Account, callerOfAccount, SIGN_IN_CLAIMS } from "../identity/account.ts";
import type { Operator } from "./session.ts";

type Field = { readonly name: string; readonly label: string; readonly value: string };

export const selectField = ({ name, label, value, values }: Field & { readonly values: readonly string[] }): Html =>
  html`<label for="${name}">${label}</label><select id="${name}" name="${name}">${values.map(
    (each) => html`<option${new Html(each === value ? " selected" : "")}>${each}</option>`,
  )}</select>`;

/** What an operator has to correct in a form. */
export class FormFault extends Error {}

/** What a form leads to, or what has to be corrected in it. */
export async function orFault(work: () => Promise<Html>): Promise<Html> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof FormFault || error instanceof QuestionFault)
      return html`<p class="bad" role="alert">${error.message}</p>`;
    throw error;
  }
}

export type AsOptions = {
  readonly anonymousRole: string;
  /** The roles of callers. */
  roles(): readonly Role[];
  /** The account with this username, e-mail or id; null where users do not sign in at the service. */
  readonly findAccount: ((login: string) => Promise<Account | null>) | null;
};

/** Milliseconds for which the caller of a trial exists. */
const LIFETIME = 60_000;
const MAX_CLAIMS = 8192;

/** The caller that the fields of a form choose. Throws FormFault. */
export async function callerIn(form: URLSearchParams, operator: Operator, options: AsOptions): Promise<Caller> {
  const expiring = { expiresAt: Date.now() + LIFETIME };
  const kind = form.get("as");
  if (kind === "user") return { ...(await userIn(form, options)), ...expiring };
  if (kind !== "role") return { ...anonymous(options.anonymousRole), ...expiring };
  const role = rolesFor(operator, options).find(({ name }) => name === form.get("role"));
  if (!role)
    throw new FormFault(
      "Choose one of the roles. Only the service key may use one that row-level security does not restrict.",
    );
  return { ...anonymous(role.name), claims: { ...claimsIn(form, options), role: role.name }, ...expiring };
}

async function userIn(form: URLSearchParams, { findAccount }: AsOptions): Promise<Caller> {
  const login = form.get("user")?.trim() ?? "";
  if (findAccount === null)
    throw new FormFault("Users do not sign in at this service: choose a role, with the claims of their tokens.");
  const account = login === "" ? null : await findAccount(login);
  if (account === null)
    throw new FormFault(
      `No user signs in as “${login}”: enter a username, an e-mail or the id of a user with an account.`,
    );
  if (account.isDisabled)
    throw new FormFault(`The account of ${account.username} is disabled: it can request nothing.`);
  return callerOfAccount(account, null);
}

function claimsIn(form: URLSearchParams, { findAccount }: AsOptions): Record<string, unknown> {
  const claims = claimsObjectIn(form);
  for (const name of SIGN_IN_CLAIMS)
    if (Object.hasOwn(claims, name))
      throw new FormFault(`Only a sign-in sets the claim “${name}”, and an operator does not sign in for a caller.`);
  if (findAccount !== null && Object.hasOwn(claims, "sub"))
    throw new FormFault("To act as a user, choose “a user” instead of the claim “sub”.");
  return claims;
}

function claimsObjectIn(form: URLSearchParams): Record<string, unknown> {
  const text = form.get("claims")?.trim() || "{}";
  if (text.length > MAX_CLAIMS) throw new FormFault(`The claims must not have more than ${MAX_CLAIMS} characters.`);
  try {
    const claims = JSON.parse(text);
    if (typeof claims === "object" && claims !== null && !Array.isArray(claims)) return claims;
  } catch {}
  throw new FormFault('The claims must be a JSON object, such as {"permissions": ["publish"]}.');
}

/** Row-level security also restricts administrators, so only the service role may use roles that bypass it. */
const rolesFor = ({ caller }: Operator, { roles }: AsOptions): readonly Role[] =>
  roles().filter(({ bypassesRowSecurity }) => caller.role === "service_role" || !bypassesRowSecurity);

/** The fields that choose a caller. */
export function asFields(form: URLSearchParams | null, operator: Operator, options: AsOptions): Html {
  const kind = form?.get("as") ?? "anonymous";
  const roles = rolesFor(operator, options).map(({ name }) => name);
  const choice = (value: string, label: string) =>
    html`<label><input type="radio" name="as" value="${value}"${new Html(kind === value ? " checked" : "")}> ${label}</label>`;
  const user = html`<div class="row">${choice("user", "a user")}<label for="user">Username, e-mail or id</label><input id="user" name="user" value="${form?.get("user") ?? ""}" maxlength="254"></div>`;
  return html`<fieldset><legend>As</legend>
<div class="row">${choice("anonymous", `an anonymous caller (${options.anonymousRole || "none"})`)}</div>
${options.findAccount && user}
<div class="row">${choice("role", "a role")}${selectField({ name: "role", label: "Role", values: roles, value: form?.get("role") ?? "authenticated" })}
<label for="claims">with the claims</label><input id="claims" name="claims" class="code" size="32" placeholder="{&quot;permissions&quot;: []}" value="${form?.get("claims") ?? ""}" maxlength="${MAX_CLAIMS}"></div>
</fieldset>`;
}

/** `ada (authenticated)`, for a sentence about the caller. */
export const nameOfCaller = ({ role, claims }: Caller): string =>
  claims.sub === undefined
    ? `the role ${role}`
    : `user ${claims.sub}${claims.name ? `, ${claims.name},` : ""} in the role ${role}`;
