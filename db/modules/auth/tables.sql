-- Accounts and tokens. No role of the API may read them.
create schema auth_private;
alter schema auth_private owner to auth_owner;
comment on schema auth_private is 'Accounts and tokens; only auth_owner may read them.';

-- The functions that the gateway calls to sign users in.
create schema auth_api;
alter schema auth_api owner to auth_owner;
comment on schema auth_api is 'Functions that the gateway calls to sign users in.';

-- owner.sql gives the tables of auth_private to auth_owner and turns on their row-level security.

-- Accepts the unambiguous part of the forms that mail servers allow: no quotes, comments or invisible characters.
create function auth.is_email(email text) returns boolean
language sql immutable parallel safe
return pg_catalog.char_length(email) <= 254
  and email !~ '[\s[:cntrl:]\u0080-\u00a0\u00ad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]'
  -- The local part: 1 to 64 characters, dots only in between.
  and email ~ '^(?=[^@]{1,64}@)[^][()<>:;,@"\\.]+(\.[^][()<>:;,@"\\.]+)*@[^@]+$'
  -- The domain: labels of 1 to 63 letters and digits, hyphens only in between; the last label is not a number.
  and email ~ '@((?!-)[-A-Za-z0-9\u00c0-\U0010ffff]{1,63}(?<!-)\.)+'
    '(?!-|[0-9]+$)[-A-Za-z0-9\u00c0-\U0010ffff]{1,63}(?<!-)$';

revoke all on function auth.is_email(text) from public;
grant execute on function auth.is_email(text) to anon, authenticated, service_role, auth_owner;

comment on function auth.is_email(text) is 'Whether a text is an e-mail that accounts may have.';

-- Source: RFC 3492.
create function auth_private.punycode(label text) returns text
language plpgsql immutable strict parallel safe set search_path = '' as $$
declare
  -- What stands before the last hyphen is ASCII.
  points integer[] := array(
    select ascii(c.letter)
    from regexp_split_to_table(substring(label from '^(.+)-[^-]*$'), '') with ordinality as c (letter, place)
    order by c.place);
  digits constant text := substring(label from '[^-]*$');
  point bigint := 128;
  index bigint := 0;
  previous bigint;
  bias bigint := 72;
  weight bigint;
  step bigint;
  digit integer;
  threshold bigint;
  delta bigint;
  place integer := 1;
  total integer;
begin
  while place <= length(digits) loop
    previous := index;
    weight := 1;
    step := 36;
    loop
      digit := nullif(position(substr(digits, place, 1) in 'abcdefghijklmnopqrstuvwxyz0123456789'), 0) - 1;
      if digit is null or place > length(digits) then return null; end if;
      place := place + 1;
      index := index + digit * weight;
      threshold := least(greatest(step - bias, 1), 26);
      exit when digit < threshold;
      weight := weight * (36 - threshold);
      if greatest(index, weight) > 100000000 then return null; end if;
      step := step + 36;
    end loop;

    total := cardinality(points) + 1;
    delta := (index - previous) / case when previous = 0 then 700 else 2 end;
    delta := delta + delta / total;
    step := 0;
    while delta > 455 loop
      delta := delta / 35;
      step := step + 36;
    end loop;
    bias := step + 36 * delta / (delta + 38);

    point := point + index / total;
    if point > 1114111 or point between 55296 and 57343 then return null; end if;
    index := index % total;
    points := points[:index::integer] || point::integer || points[index::integer + 1:];
    index := index + 1;
  end loop;
  return (select string_agg(chr(p.point), '' order by p.place) from unnest(points) with ordinality as p (point, place));
end $$;

comment on function auth_private.punycode(text) is
  'A label of a domain in Unicode, from what follows xn-- in lower case. Null if it is not valid.';

create function auth_private.normal_email(email text) returns text
language plpgsql immutable strict parallel safe set search_path = '' as $$
declare
  -- Of the last @.
  place constant integer := length(email) - position('@' in reverse(email)) + 1;
  domain text;
begin
  -- Only UTF8 has several spellings of a text.
  if email ~ '^[[:ascii:]]*$' and email !~* '[@.]xn--' or current_setting('server_encoding') <> 'UTF8' then
    return email;
  end if;
  select string_agg(
      case
        when d.decoded ~ '^[-a-z0-9\u00c0-\U0010ffff]*[\u00c0-\U0010ffff][-a-z0-9\u00c0-\U0010ffff]*$'
          and d.decoded = lower(normalize(d.decoded, nfkc)) then d.decoded
        else d.label
      end,
      '.' order by d.place)
  into domain
  from (
    select
      l.label,
      l.place,
      case when l.label like 'xn--%' then auth_private.punycode(substr(l.label, 5)) end as decoded
    from string_to_table(lower(normalize(substr(email, place + 1), nfkc)), '.') with ordinality as l (label, place)
  ) as d;
  return normalize(left(email, place), nfc) || coalesce(normalize(domain, nfc), '');
end $$;

comment on function auth_private.normal_email(text) is $$
The form in which e-mails are stored, as normalizedEmail of rest-gateway/auth/login-names.ts has it: NFC, and unless the
e-mail is ASCII, its domain in lower case, and in Unicode in place of xn--.
$$;

create function auth_private.email_key(email text) returns text
language plpgsql immutable strict parallel safe set search_path = '' as $$
begin
  -- Whatever the locale of the database is.
  if email ~ '^[[:ascii:]]*$' and email !~* '[@.]xn--' then return lower(email collate "C"); end if;
  return lower(auth_private.normal_email(email));
end $$;

comment on function auth_private.email_key(text) is
  'How e-mails are compared: all spellings of one address have the same key.';

-- How a user signs in. A user without an account can be read but cannot sign in.
create table auth_private.accounts (
  user_id       auth.user_id primary key, -- a row of the application's users, if there are any (auth.use_users)
  username      text, -- null: signs in with the e-mail alone (login_emails)
  name          text not null, -- for claims
  -- argon2id, as a PHC string; of an imported account, another hash until its first sign-in
  -- (rest-gateway/auth/password-hashes.ts). Null: signs in with an identity of a provider alone.
  password_hash text,
  role          text not null default 'authenticated',
  permissions   text[] not null default '{}',
  disabled_at   timestamptz, -- null while the account may sign in
  created_at    timestamptz not null default now(),
  epoch         integer not null default 0, -- tokens and sessions of an earlier epoch are not valid
  email_confirmed_at timestamptz, -- null until the user has shown that the login e-mail is theirs
  public_id     uuid not null default gen_random_uuid(), -- how /auth/v1 names the user; the id itself, if it is a uuid
  user_metadata jsonb not null default '{}', -- what the user says about themselves; no rule may trust it
  app_metadata  jsonb not null default '{}', -- what the service key says about the user
  updated_at    timestamptz not null default now(),
  must_confirm  boolean not null default false, -- whether EMAIL_CONFIRM=required keeps it from signing in before that
  disabled_until timestamptz, -- null for an end that only an operator brings
  is_anonymous  boolean not null default false, -- whether the user has only tokens: no e-mail, and no identity yet
  import_key    uuid, -- the first half of the SHA-256 of the row that it was imported from: each is imported once
  invited_at    timestamptz, -- null unless an operator has invited the user
  imported      uuid[] not null default '{}', -- the identities and second factors that were imported: each is once

  -- Without @, so that a username is never the e-mail of another user. In Basic credentials a colon ends the username.
  constraint accounts_username_format check (username ~ '^[^@:[:space:][:cntrl:]]+$' and char_length(username) <= 100),
  constraint accounts_role_known check (role in ('authenticated', 'admin')),
  constraint accounts_password_hash_format check (
    password_hash ~ '^\$(argon2id?|2[aby]|scrypt|fbscrypt|pbkdf2-sha(1|256|512))\$'),
  constraint accounts_disabled_until_known check (disabled_until is null or disabled_at is not null),
  constraint accounts_name_length check (name ~ '\S' and char_length(name) <= 200),
  constraint accounts_metadata_objects check (
    jsonb_typeof(user_metadata) = 'object' and jsonb_typeof(app_metadata) = 'object')
);
-- Looking up the user of a request of an administrator at /auth/v1.
create unique index accounts_public_id_key on auth_private.accounts (public_id);
-- Deleting anonymous accounts that are no longer used.
create index accounts_anonymous_idx on auth_private.accounts (created_at) where is_anonymous;
-- Looking up whether a row was imported.
create unique index accounts_import_key_key on auth_private.accounts (import_key) where import_key is not null;
-- Choosing the account whose hash an unknown login is verified with.
create index accounts_decoy_idx on auth_private.accounts (hashtextextended(public_id::text, 0))
  where not is_anonymous;
-- Looking up the account of a login.
create unique index accounts_username_key on auth_private.accounts (lower(username));

comment on index auth_private.accounts_username_key is 'username already taken';
comment on constraint accounts_username_format on auth_private.accounts is
  'username must have 1 to 100 characters, without spaces, colons and @; without a username the e-mail is used';
comment on constraint accounts_name_length on auth_private.accounts is 'name must have 1 to 200 characters';

-- Ids of users without a row in a table of the application, if ids are numbers.
create sequence auth_private.user_ids;
alter sequence auth_private.user_ids owner to auth_owner;

-- The e-mails that accounts sign in with, and those that accounts have signed in with before: they stay reserved for a
-- time if they were confirmed, and otherwise while they undo a change. The e-mail that the application shows may
-- differ: other callers may change that one.
create table auth_private.login_emails (
  user_id     auth.user_id not null references auth_private.accounts on delete cascade,
  email       text not null,
  released_at timestamptz, -- null while the account signs in with it
  is_confirmed boolean not null default true, -- when it was released

  primary key (user_id, email),
  constraint login_emails_email_format check (auth.is_email(email))
);
-- Looking up the account of a login.
create unique index login_emails_email_key on auth_private.login_emails (auth_private.email_key(email));
-- An account signs in with one e-mail.
create unique index login_emails_user_id_key on auth_private.login_emails (user_id) where released_at is null;
-- Deleting those whose reservation has ended.
create index login_emails_released_at_idx on auth_private.login_emails (released_at) where released_at is not null;

comment on table auth_private.login_emails is
  'The e-mails that accounts sign in with, and those that are reserved for them.';
comment on index auth_private.login_emails_email_key is 'email already registered';
comment on constraint login_emails_email_format on auth_private.login_emails is 'email must be a valid address';

-- The second factors of accounts. The service encrypts secrets with a key that is not in this database.
create table auth_private.factors (
  id            uuid primary key default gen_random_uuid(),
  user_id       auth.user_id not null references auth_private.accounts on delete cascade,
  friendly_name text not null default '', -- as the user names it at /auth/v1; "" for the one of /api/mfa
  secret        bytea, -- null until it is enabled
  pending       bytea, -- null unless an enrolment is pending
  pending_until timestamptz,
  enabled_at    timestamptz, -- null until it is enabled
  last_step     bigint not null default 0, -- the last 30 s step whose code was accepted: a code is accepted once
  created_at    timestamptz not null default now(),
  -- Whether it was enabled before the e-mail was confirmed: the owner of the mailbox may be another person.
  is_unconfirmed boolean not null default false,

  constraint factors_secret_known check ((secret is null) = (enabled_at is null)),
  constraint factors_pending_known check ((pending is null) = (pending_until is null)),
  constraint factors_friendly_name_length check (char_length(friendly_name) <= 100)
);
-- The factors of an account.
create unique index factors_user_id_friendly_name_key on auth_private.factors (user_id, friendly_name);

-- Codes for users who have lost their app, as keyed hashes; each is valid once. They go with the last factor.
create table auth_private.backup_codes (
  user_id   auth.user_id not null references auth_private.accounts on delete cascade,
  code_hash bytea not null,
  used_at   timestamptz, -- null while it is valid

  primary key (user_id, code_hash),
  constraint backup_codes_code_hash_length check (octet_length(code_hash) = 32)
);

comment on table auth_private.factors is 'The second factors of accounts; secrets are encrypted.';
comment on table auth_private.backup_codes is 'Codes in place of a second factor, as keyed hashes.';

-- Passkeys (WebAuthn): each signs in by itself, and is a second factor after a password. They are public keys, so no
-- secret of a user is stored.
create table auth_private.passkeys (
  id            uuid primary key default gen_random_uuid(),
  user_id       auth.user_id not null references auth_private.accounts on delete cascade,
  name          text not null, -- for the user: "Chrome on Linux"
  credential_id bytea not null, -- as its authenticator names it
  public_key    bytea not null, -- COSE
  counter       bigint not null, -- of the last signature; 0 if the authenticator does not count
  transports    text[] not null, -- how a browser reaches the authenticator: "internal", "usb" ...
  is_synced     boolean not null, -- whether it may be on several devices of the user
  created_at    timestamptz not null,
  last_used_at  timestamptz, -- null until it has signed in
  is_unconfirmed boolean not null default false, -- as auth_private.factors has it

  constraint passkeys_name_length check (name ~ '\S' and char_length(name) <= 100),
  constraint passkeys_credential_id_length check (octet_length(credential_id) between 1 and 1023),
  constraint passkeys_public_key_length check (octet_length(public_key) <= 8192),
  constraint passkeys_transports_length check (cardinality(transports) <= 10)
);
-- The passkey that has signed.
create unique index passkeys_credential_id_key on auth_private.passkeys (credential_id);
-- The passkeys of an account.
create index passkeys_user_id_idx on auth_private.passkeys (user_id);

comment on table auth_private.passkeys is 'Passkeys of accounts: public keys of authenticators.';

-- Sign-ins of users: with refresh tokens, each of which replaced the one before, or with a cookie. Access tokens name
-- the session as `sid`.
create table auth_private.sessions (
  id          uuid primary key default gen_random_uuid(),
  user_id     auth.user_id not null references auth_private.accounts on delete cascade,
  epoch       integer not null, -- the epoch of the account at sign-in
  cookie_hash bytea, -- the SHA-256 of the cookie; null for a session with tokens
  device      text, -- the browser and the system, or the program, as it named itself at sign-in
  network     cidr, -- of the client at sign-in
  started_at  timestamptz not null,
  seen_at     timestamptz not null, -- the last request with the cookie, or the last refresh
  expires_at  timestamptz not null, -- the end of its maximum duration, or of its refresh token
  revoked_at  timestamptz, -- null while it is valid; a session with a cookie is deleted instead
  methods     jsonb not null default '[]', -- how the user has proved who they are: [{method, timestamp}], newest first
  aal         smallint not null default 1, -- 2 if a second factor was one of them
  kept_at     timestamptz, -- when it was moved to a new epoch: its access tokens of the previous epoch stay valid

  constraint sessions_cookie_hash_length check (octet_length(cookie_hash) = 32),
  constraint sessions_device_length check (char_length(device) <= 100),
  constraint sessions_revoked_tokens check (cookie_hash is null or revoked_at is null)
);
-- The sessions of a user that have not ended.
create index sessions_user_id_epoch_idx on auth_private.sessions (user_id, epoch);
-- Looking up the session of a cookie.
create unique index sessions_cookie_hash_key on auth_private.sessions (cookie_hash);
-- A user has at most one session with a cookie.
create unique index sessions_user_id_key on auth_private.sessions (user_id) where cookie_hash is not null;
-- The revoked sessions that a user's access tokens must not name.
create index sessions_revoked_at_idx on auth_private.sessions (user_id, revoked_at) where revoked_at is not null;
-- The sessions whose access tokens may be of an earlier epoch.
create index sessions_kept_at_idx on auth_private.sessions (user_id, kept_at) where kept_at is not null;
-- Deleting expired sessions.
create index sessions_expires_at_idx on auth_private.sessions (expires_at);

-- Refresh tokens that were issued, by their SHA-256: a token that is not in this table is not valid.
create table auth_private.refresh_tokens (
  token_hash bytea primary key,
  session_id uuid not null references auth_private.sessions on delete cascade,
  issued_at  timestamptz not null default now(),
  expires_at timestamptz not null,
  spent_at   timestamptz, -- null until it was used; -infinity if its parent was used again instead
  parent     bytea, -- the token that it was exchanged for, by its SHA-256

  constraint refresh_tokens_token_hash_length check (octet_length(token_hash) = 32)
);
-- The tokens that followed from one.
create index refresh_tokens_parent_idx on auth_private.refresh_tokens (parent) where parent is not null;
-- The tokens of a session.
create index refresh_tokens_session_id_idx on auth_private.refresh_tokens (session_id);
-- Deleting expired tokens.
create index refresh_tokens_expires_at_idx on auth_private.refresh_tokens (expires_at);

-- Challenges of second factors and of passkeys that were used, until they expire.
create table auth_private.spent_challenges (
  id       uuid primary key, -- of a second factor: its jti
  spent_at timestamptz not null
);

comment on table auth_private.sessions is 'Sign-ins of users: with refresh tokens, or with a cookie.';
comment on table auth_private.refresh_tokens is 'Refresh tokens that were issued, by their SHA-256.';
comment on table auth_private.spent_challenges is 'Challenges of second factors and of passkeys that were used.';

-- Keys for programs, by their SHA-256. A user's key identifies the user; anon and service keys identify their role.
create table auth_private.api_keys (
  id           uuid primary key default gen_random_uuid(),
  kind         text not null,
  user_id      auth.user_id references auth_private.accounts on delete cascade,
  name         text not null,
  prefix       text not null, -- the first characters, to recognize the key by
  key_hash     bytea not null,
  created_at   timestamptz not null default now(),
  expires_at   timestamptz, -- null if it never does
  revoked_at   timestamptz, -- null while it is valid
  last_used_at timestamptz, -- to the minute

  constraint api_keys_kind_known check (kind in ('user', 'anon', 'service')),
  constraint api_keys_user_id_known check ((kind = 'user') = (user_id is not null)),
  constraint api_keys_name_length check (name ~ '\S' and char_length(name) <= 100),
  constraint api_keys_key_hash_length check (octet_length(key_hash) = 32)
);
-- Looking up the key of a request.
create unique index api_keys_key_hash_key on auth_private.api_keys (key_hash);
-- The keys of a user, newest first.
create index api_keys_user_id_created_at_idx on auth_private.api_keys (user_id, created_at desc);

comment on table auth_private.api_keys is 'Keys for programs, by their SHA-256.';
comment on constraint api_keys_name_length on auth_private.api_keys is 'name must have 1 to 100 characters';

-- What may be used once: sign-ins at a provider that have begun, sign-in codes, SAML assertions.
create table auth_private.one_time_values (
  kind       text not null, -- rest-gateway/auth/one-time-values.ts lists them
  key        bytea not null, -- SHA-256 of what the client or the provider must send
  data       jsonb not null default '{}',
  expires_at timestamptz not null,

  primary key (kind, key),
  constraint one_time_values_key_length check (octet_length(key) = 32)
);
-- Deleting expired values.
create index one_time_values_expires_at_idx on auth_private.one_time_values (expires_at);

comment on table auth_private.one_time_values is 'What may be used once, by the SHA-256 of its secret.';

-- E-mails that are due. A row is deleted when its e-mail is sent; with MAIL_URL=keep it stays. It holds no secret: the
-- token of the link is derived from the id, with a key that is not in this database.
create table auth_private.mails (
  id          uuid primary key default gen_random_uuid(),
  kind        text not null, -- parts/mail/kinds.ts lists them
  user_id     auth.user_id references auth_private.accounts on delete cascade, -- null: unknown, or none
  email       text not null,
  data        jsonb not null default '{}',
  created_at  timestamptz not null default now(),
  prepared_at timestamptz, -- null until the first attempt, which decides what is sent and stores the token
  sent_at     timestamptz, -- null while it is due

  constraint mails_email_length check (char_length(email) <= 254)
);
-- The newest e-mails, and deleting old ones.
create index mails_created_at_idx on auth_private.mails (created_at desc);
-- Deleting those of an account.
create index mails_user_id_idx on auth_private.mails (user_id);

-- The links and codes of e-mails, by the SHA-256 of the token in the link. Each is valid once.
create table auth_private.one_time_tokens (
  token_hash bytea primary key,
  kind       text not null, -- the kind of the e-mail
  user_id    auth.user_id references auth_private.accounts on delete cascade,
  email      text not null, -- the address that has received it
  data       jsonb not null default '{}',
  code_hash  bytea, -- a keyed hash of the six digits; null if the e-mail has none, or after 5 wrong ones
  attempts   integer not null default 0, -- wrong codes
  expires_at timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),

  constraint one_time_tokens_token_hash_length check (octet_length(token_hash) = 32),
  constraint one_time_tokens_code_hash_length check (octet_length(code_hash) = 32)
);
-- The tokens of an account.
create index one_time_tokens_user_id_idx on auth_private.one_time_tokens (user_id);
-- The code that an address has received, and a change of the e-mail to it.
create index one_time_tokens_email_idx on auth_private.one_time_tokens (auth_private.email_key(email));
-- Deleting expired tokens.
create index one_time_tokens_expires_at_idx on auth_private.one_time_tokens (expires_at);

-- The devices that users have signed in with, so that they hear of others.
create table auth_private.known_devices (
  user_id auth.user_id not null references auth_private.accounts on delete cascade,
  device  text not null, -- as in auth_private.sessions; "" if it named none
  seen_at timestamptz not null,

  primary key (user_id, device)
);

comment on table auth_private.known_devices is 'The devices that users have signed in with.';
comment on table auth_private.mails is 'E-mails that are due, without their secrets.';
comment on table auth_private.one_time_tokens is 'The links and codes of e-mails, by the SHA-256 of their token.';

-- Identity providers beside those of the file AUTH_PROVIDERS. The owner of the database writes this table; the service
-- follows its changes.
create table auth_private.providers (
  name       text primary key, -- in the URLs of the provider: /auth/oidc/<name>
  definition jsonb not null, -- an entry of the file without its name; docs/federated-sign-in.md

  constraint providers_name_format check (name ~ '^[a-z0-9][a-z0-9-]{0,49}$'),
  constraint providers_definition_object check (jsonb_typeof(definition) = 'object'),
  constraint providers_secrets_elsewhere check (
    jsonb_typeof(coalesce(definition -> 'clientSecret', '{}')) = 'object'
    and definition::text not like '%PRIVATE KEY%')
);

comment on table auth_private.providers is
  'Identity providers beside those of the file AUTH_PROVIDERS, in the same format.';
comment on constraint providers_secrets_elsewhere on auth_private.providers is
  'a secret is not stored here: name an environment variable, {"env": "AUTH_SECRET_..."}';

-- Identities at other providers that accounts sign in with. An identity is an issuer and a subject; an e-mail is not.
create table auth_private.identities (
  id        uuid primary key default gen_random_uuid(),
  user_id   auth.user_id not null references auth_private.accounts on delete cascade,
  provider  text not null, -- its name when the identity was last used, for people
  issuer    text not null,
  subject   text not null,
  email     text, -- as the provider gave it last, for people; it identifies nothing
  linked_at timestamptz not null,
  used_at   timestamptz, -- the last sign-in
  sign_in   bytea, -- what the provider needs to end the last sign-in, encrypted; null if there is nothing

  constraint identities_issuer_length check (char_length(issuer) between 1 and 500),
  constraint identities_subject_length check (char_length(subject) between 1 and 500)
);
-- The account that an identity signs in to.
create unique index identities_issuer_subject_key on auth_private.identities (issuer, subject);
-- The identities of an account.
create index identities_user_id_idx on auth_private.identities (user_id);

comment on table auth_private.identities is
  'Identities at other providers that accounts sign in with, by issuer and subject.';
comment on index auth_private.identities_issuer_subject_key is 'this identity already belongs to an account';

-- Failed and undecided attempts, such as logins, which limit the guessing of credentials.
create table auth_private.attempts (
  id     bigint generated always as identity primary key,
  key    bytea not null, -- auth_private.attempt_key: a user at an address, an address, a user's second factor
  at     timestamptz not null,
  counts boolean not null default false, -- false until it is decided

  constraint attempts_key_length check (octet_length(key) = 32)
);
-- Attempts within the window.
create index attempts_key_at_idx on auth_private.attempts (key, at);
-- Deleting old attempts.
create index attempts_at_idx on auth_private.attempts (at);

comment on table auth_private.attempts is
  'Attempts that count, such as failed logins, and undecided ones.';

-- Sign-ins, failures and changes of accounts.
create table auth_private.security_events (
  id      bigint generated always as identity primary key,
  at      timestamptz not null default now(),
  event   text not null,
  user_id auth.user_id, -- null if unknown; no foreign key: events outlive users
  address inet, -- null if no client caused it
  detail  jsonb not null default '{}',
  operator text -- null if the user acted
);
-- Events of a user, newest first.
create index security_events_user_id_at_idx on auth_private.security_events (user_id, at desc);
-- Events, newest first, and deleting old ones.
create index security_events_at_idx on auth_private.security_events (at desc);
-- The one that counts further refused logins.
create index security_events_throttled_idx on auth_private.security_events (at desc) where event = 'login_throttled';

comment on table auth_private.security_events is 'Sign-ins, failures and changes of accounts.';

-- Settings of the service that functions read.
create table auth_private.settings (
  name  text primary key,
  value text not null
);
insert into auth_private.settings
values ('recent_sign_in', '600'), ('registrations', '60'), ('registrations_window', '900 seconds'),
  ('mail', 'off'), ('mails_per_recipient', '5'), ('email_confirm', 'off'), ('signup', 'open'),
  ('users_email', 'public');

comment on table auth_private.settings is
  'Settings of the service that functions read. The service writes them at each start.';

-- Functions of the application that sign-up, sign-in and e-mails call.
create table auth_private.hooks (
  point    text primary key,
  function text not null, -- its signature: pg_upgrade refuses tables with columns of type regprocedure

  constraint hooks_point_known check (
    point in (
      'before_sign_up', 'new_user', 'after_sign_up', 'after_sign_in', 'new_email', 'new_data', 'deleted', 'claims',
      'send_message', 'users_email'))
);

comment on table auth_private.hooks is
  'Functions of the application that sign-up, sign-in and e-mails call, set with auth.use_hook.';
