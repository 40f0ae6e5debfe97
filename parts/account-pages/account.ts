import { badge, type Html, html, timeOf } from "../../gate/pages/html.ts";
import { type LinkedIdentity, providersOf } from "../../rest-gateway/auth/federated.ts";
import { listKeys } from "../../rest-gateway/auth/keys.ts";
import { listSessions } from "../../rest-gateway/auth/own-sessions.ts";
import { sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { pathOf } from "../../rest-gateway/auth/pages/paths.ts";
import { actionOf, noticeOf } from "./account-form.ts";
import { appsSection } from "./factor.ts";
import { endFlash } from "./flash.ts";
import { passkeysOf } from "./passkeys.ts";
import {
  ACCOUNT_CONFIRM_PATH,
  BACKUP_CODES_PATH,
  EMAIL_PATH,
  FACTOR_PATH,
  KEYS_PATH,
  LINK_IDENTITY_PATH,
  PASSWORD_PATH,
  REVOKED_PATH,
  SESSIONS_PATH,
  SIGN_OUT_PATH,
  UNLINK_PATH,
} from "./paths.ts";
import type { AccountVisit } from "./visit.ts";

/** `GET /auth/account`: all that a user may see and change of the account. */
export async function showAccount(visit: AccountVisit): Promise<void> {
  const { flash } = visit;
  const lists = [listSessions(visit), listKeys(visit), linkedTo(visit), factorsOf(visit)] as const;
  const [sessions, keys, identities, factors] = await Promise.all(lists);
  const main = html`${flash.notice === undefined ? null : noticeOf(flash.notice)}
${flash.key === undefined ? null : shownOnce("Your new API key", "It is shown only now: copy it.", [flash.key])}
${flash.codes === undefined ? null : shownOnce("Your backup codes", "They are shown only now: store them safely. Each replaces a code of the app, or a passkey, once.", flash.codes)}
${profileOf(visit)}
${factors}
${sessionsOf(visit, sessions.data)}
${identitiesOf(visit, identities)}
${keysOf(visit, keys.data)}`;
  const out = actionOf(visit, SIGN_OUT_PATH, {}, "Sign out", "quiet");
  endFlash(visit);
  sendPage(visit, { title: "Your account", main, aside: out, isWide: true, namesOrigin: true });
}

const factorsOf = (visit: AccountVisit): Promise<readonly (Html | null)[]> =>
  Promise.all([appsSection(visit), passkeysOf(visit)]);

const shownOnce = (title: string, about: string, secrets: readonly string[]): Html => html`<section class="once">
<h2>${title}</h2>
<p>${about}</p>
<ul class="secrets">${secrets.map((each) => html`<li><code>${each}</code></li>`)}</ul>
</section>`;

function profileOf(visit: AccountVisit): Html {
  const { auth, account } = visit;
  const { name, username, email, emailConfirmedAt, passwordHash, hasFactor, factorKinds } = account;
  const link = (path: string, text: string) => html`<a href="${pathOf(auth, path)}">${text}</a>`;
  const confirm =
    emailConfirmedAt === null && auth.mails?.isOn
      ? actionOf(visit, ACCOUNT_CONFIRM_PATH, {}, "Confirm it by e-mail", "plain")
      : null;
  return html`<dl class="profile">
<div><dt>Name</dt><dd>${name}${username === email ? null : html` <span class="muted">${username}</span>`}</dd></div>
<div><dt>E-mail</dt><dd>${email} ${emailConfirmedAt === null ? badge("not confirmed", "warn") : badge("confirmed", "good")} ${confirm}</dd><dd class="act">${link(EMAIL_PATH, "Change")}</dd></div>
<div><dt>Password</dt><dd>${passwordHash === null ? "None: you sign in with a provider or an e-mail" : "••••••••••••"}</dd><dd class="act">${link(PASSWORD_PATH, passwordHash === null ? "Set" : "Change")}</dd></div>
<div><dt>Second factor</dt><dd>${hasFactor ? badge("on", "good") : badge("off", "muted")}</dd><dd class="act">${hasFactor ? link(BACKUP_CODES_PATH, "New backup codes") : null} ${factorKinds.includes("totp") ? null : link(FACTOR_PATH, "Set up an app")}</dd></div>
</dl>`;
}

type Sessions = Awaited<ReturnType<typeof listSessions>>["data"];

function sessionsOf(visit: AccountVisit, sessions: Sessions): Html {
  const items = sessions.map(
    ({ id, device, network, lastUsedAt, isCurrent }) => html`<li>
<div><strong>${device ?? "An unknown device"}</strong> ${isCurrent ? badge("this browser", "good") : null}
<p class="hint">Last used ${timeOf(lastUsedAt)}${network === null ? null : html`, from ${network}`}</p></div>
${isCurrent ? null : actionOf(visit, SESSIONS_PATH, { id }, "Sign out", "quiet", `Sign out ${device ?? "the unknown device"}`)}
</li>\n`,
  );
  return html`<section>
<h2>Where you are signed in</h2>
<ul class="items">${items}</ul>
${sessions.length > 1 ? actionOf(visit, SESSIONS_PATH, { id: "others" }, "Sign out everywhere else", "danger") : null}
</section>`;
}

const linkedTo = async ({ auth, signedIn }: AccountVisit): Promise<readonly LinkedIdentity[]> =>
  auth.federated?.identitiesOf(auth, signedIn.id) ?? [];

function identitiesOf(visit: AccountVisit, identities: readonly LinkedIdentity[]): Html | null {
  const providers = providersOf(visit.auth);
  if (providers.length + identities.length === 0) return null;
  const titleOf = (name: string) => providers.find((each) => each.name === name)?.title ?? name;
  const items = identities.map(
    ({ id, provider, email, linkedAt }) => html`<li>
<div><strong>${titleOf(provider)}</strong>
<p class="hint">${email === null ? null : `${email}, `}linked ${timeOf(linkedAt)}</p></div>
${actionOf(visit, UNLINK_PATH, { id }, "Unlink", "quiet", `Unlink ${titleOf(provider)}`)}
</li>\n`,
  );
  return html`<section>
<h2>Linked identities</h2>
<p class="muted">With each of them you can sign in to this account.</p>
${items.length === 0 ? null : html`<ul class="items">${items}</ul>`}
<div class="row">${providers.map(({ name, title }) => actionOf(visit, LINK_IDENTITY_PATH, { provider: name }, `Link ${title}`, "quiet"))}</div>
</section>`;
}

type Keys = Awaited<ReturnType<typeof listKeys>>["data"];

function keysOf(visit: AccountVisit, keys: Keys): Html {
  const items = keys.map(
    ({ id, name, prefix, expiresAt, lastUsedAt }) => html`<li>
<div><strong>${name}</strong> <code>${prefix}…</code>
<p class="hint">${lastUsedAt === null ? "Never used" : html`Last used ${timeOf(lastUsedAt)}`}, ${expiresAt === null ? "never expires" : html`expires ${timeOf(expiresAt)}`}</p></div>
${actionOf(visit, REVOKED_PATH, { id }, "Revoke", "danger", `Revoke ${name}`)}
</li>\n`,
  );
  return html`<section>
<h2>API keys</h2>
<p class="muted">A program that sends a key acts as you.</p>
${items.length === 0 ? null : html`<ul class="items">${items}</ul>`}
<p><a class="button quiet" href="${pathOf(visit.auth, KEYS_PATH)}">Create a key</a></p>
</section>`;
}
