import { anonymous, type Caller } from "../../db/caller.ts";
import type { Role } from "../../db/catalog/catalog.ts";
import { Html, html } from "../../gate/pages/html.ts";
import { type Account, callerOfAccount } from "../../identity/account.ts";
import { jsonObject, QuestionFault } from "../advisor/why/asked-change.ts";
import type { Operator } from "./session.ts";

type Field = { readonly name: string; readonly label: string; readonly value: string };

export const selectField = ({ name, label, value, values }: Field & { readonly values: readonly string[] }): Html =>
  html`<label for="${name}">${label}</label><select id="${name}" name="${name}">${values.map(
    (each) => html`<option${new Html(each === value ? " selected" : "")}>${each}</option>`,
  )}</select>`;

export type InputField = Field & {
  readonly maxlength: number;
  readonly placeholder?: string;
  /** The id of the list of values that the browser suggests. */
  readonly list?: string;
  readonly look?: string;
  readonly isRequired?: boolean;
};

/** A field of one line. If it is the one to correct, it has the focus, and the message is below it. */
export function inputField(field: InputField, fault: FormFault | null = null): Html {
  const { name, label, value, maxlength, placeholder = "", list, look = "code", isRequired = false } = field;
  return html`<label for="${name}">${label}</label><input id="${name}" name="${name}" class="${look}" value="${value}" placeholder="${placeholder}" maxlength="${maxlength}"${list ? html` list="${list}"` : null}${isRequired ? new Html(" required") : null}${marksOf(name, fault)}>${messageFor(name, fault)}`;
}

/** The attributes of the field that a fault is about. */
export const marksOf = (name: string, fault: FormFault | null): Html | null =>
  fault?.field === name ? html` aria-invalid="true" aria-describedby="${name}-fault" autofocus` : null;

export const messageFor = (name: string, fault: FormFault | null): Html | null =>
  fault?.field === name ? html`<p class="fault" id="${name}-fault">${fault.message}</p>` : null;

/** What an operator has to correct in a form. */
export class FormFault extends Error {
  /** The name of the field; null if it is about no single one. */
  readonly field: string | null;
  constructor(message: string, field: string | null = null) {
    super(message);
    this.field = field;
  }
}

/** What a form has led to, or what has to be corrected in it. */
export type Outcome = { readonly shown: Html | null; readonly fault: FormFault | null };

export const NO_OUTCOME: Outcome = { shown: null, fault: null };

export async function outcomeOf(work: () => Promise<Html>): Promise<Outcome> {
  try {
    return { shown: await work(), fault: null };
  } catch (error) {
    if (error instanceof FormFault) return { shown: null, fault: error };
    if (error instanceof QuestionFault) return { shown: null, fault: new FormFault(error.message, error.row) };
    throw error;
  }
}

/** Says of which field a question is wrong. */
export function askedIn<Asked>(field: string, ask: () => Asked): Asked {
  try {
    return ask();
  } catch (error) {
    throw error instanceof QuestionFault ? new FormFault(error.message, field) : error;
  }
}

/** The form of a page, and what it has led to. What is shown comes first: the form is folded to a line that says what was sent. */
export function formAndOutcome(form: Html, sent: string, { shown, fault }: Outcome): Html {
  const alert = fault && fault.field === null ? html`<p class="alert" role="alert">${fault.message}</p>` : null;
  if (shown === null) return html`${alert}${form}`;
  return html`<section id="outcome">
<details class="sent"><summary><span>${sent}</span></summary>${form}</details>
${shown}</section>`;
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
      "role",
    );
  return { ...anonymous(role.name), claims: { ...claimsIn(form, options), role: role.name }, ...expiring };
}

async function userIn(form: URLSearchParams, { findAccount }: AsOptions): Promise<Caller> {
  const login = form.get("user")?.trim() ?? "";
  if (findAccount === null)
    throw new FormFault("Users do not sign in at this service: choose a role, with the claims of their tokens.");
  if (login === "") throw new FormFault("Enter the username, the e-mail or the id of a user.", "user");
  const account = await findAccount(login);
  if (account === null)
    throw new FormFault(
      `No user signs in as “${login}”: enter a username, an e-mail or the id of a user with an account.`,
      "user",
    );
  if (account.isDisabled)
    throw new FormFault(`The account of ${account.username} is disabled: it can request nothing.`, "user");
  return callerOfAccount(account, null);
}

function claimsIn(form: URLSearchParams, { findAccount }: AsOptions): Record<string, unknown> {
  const claims = claimsObjectIn(form);
  const refuse = (message: string): never => {
    throw new FormFault(message, "claims");
  };
  for (const name of SIGN_IN_CLAIMS)
    if (Object.hasOwn(claims, name))
      refuse(`Only a sign-in sets the claim “${name}”, and an operator does not sign in for a caller.`);
  if (findAccount !== null && Object.hasOwn(claims, "sub"))
    refuse("To act as a user, choose “a user” instead of the claim “sub”.");
  return claims;
}

function claimsObjectIn(form: URLSearchParams): Record<string, unknown> {
  const text = form.get("claims")?.trim() || "{}";
  if (text.length > MAX_CLAIMS)
    throw new FormFault(`The claims must not have more than ${MAX_CLAIMS} characters.`, "claims");
  const claims = jsonObject(text);
  if (claims === null)
    throw new FormFault('The claims must be a JSON object, such as {"permissions": ["publish"]}.', "claims");
  return { ...claims };
}

/** Row-level security also restricts administrators, so only the service role may use roles that bypass it. */
const rolesFor = ({ caller }: Operator, { roles }: AsOptions): readonly Role[] =>
  roles().filter(({ bypassesRowSecurity }) => caller.role === "service_role" || !bypassesRowSecurity);

/** The fields that choose a caller. */
export function asFields(
  form: URLSearchParams | null,
  operator: Operator,
  options: AsOptions,
  fault: FormFault | null,
): Html {
  const kind = form?.get("as") ?? "anonymous";
  const roles = rolesFor(operator, options).map(({ name }) => name);
  const value = (name: string) => form?.get(name) ?? "";
  const choice = (name: string, label: string) =>
    html`<label><input type="radio" name="as" value="${name}"${new Html(kind === name ? " checked" : "")}> ${label}</label>`;
  const user = {
    name: "user",
    label: "Username, e-mail or id",
    value: value("user"),
    maxlength: 254,
    look: "",
  };
  const claims = {
    name: "claims",
    label: "with the claims",
    value: value("claims"),
    maxlength: MAX_CLAIMS,
    look: "code wide",
    placeholder: '{"permissions": []}',
  };
  return html`<fieldset class="as"><legend>As</legend>
<div class="row">${choice("anonymous", `an anonymous caller (${options.anonymousRole || "none"})`)}${options.findAccount && choice("user", "a user")}${choice("role", "a role")}</div>
${options.findAccount && html`<div class="row of-user">${inputField(user, fault)}</div>`}
<div class="row of-role">${selectField({ name: "role", label: "Role", values: roles, value: value("role") || "authenticated" })}${messageFor("role", fault)}
${inputField(claims, fault)}</div>
</fieldset>`;
}

/** `ada (authenticated)`, for a sentence about the caller. */
export const nameOfCaller = ({ role, claims }: Caller): string =>
  claims.sub === undefined
    ? `the role ${role}`
    : `user ${claims.sub}${claims.name ? `, ${claims.name},` : ""} in the role ${role}`;

/**
 * Claims that say how and when a user signed in. Only a sign-in sets them: operators who act as a caller cannot, because functions and
 * policies ask for them before they allow what a stolen token must not be able to do.
 */
const SIGN_IN_CLAIMS: readonly string[] = ["auth_time", "sid", "session_id", "epoch", "amr", "acr", "aal", "mfa"];
