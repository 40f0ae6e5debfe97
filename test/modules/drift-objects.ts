export const HEADER = `--! Previous: -\n--! Hash: sha1:${"0".repeat(40)}\n--! Message: m\n--! AllowInvalidHash\n\n`;

/** Every kind of object. Partitions have the identity of their table since PostgreSQL 17. The view is one that PostgreSQL 15 writes with the name of the table before each column. */
export const MIGRATION = `
  grant usage on schema public to anon, authenticated;
  create type public.mood as enum ('good', 'bad');
  create type public.mark as enum ('a');
  create sequence public.numbers;
  create table public.notes (
    id bigint primary key default nextval('public.numbers'), author uuid default auth.uid(), title text not null default '',
    body text, mood public.mood, constraint notes_title_length check (char_length(title) < 100),
    constraint notes_body_length check (char_length(body) < 9999)
  );
  create table public.drafts (id bigint generated always as identity primary key, note_id bigint references public.notes);
  create table public.visits (id bigint generated always as identity, day date not null, primary key (id, day)) partition by range (day);
  create table public.visits_2026 partition of public.visits for values from ('2026-01-01') to ('2027-01-01');
  create index drafts_note_id_idx on public.drafts (note_id);
  create index notes_author_idx on public.notes (author);
  create index notes_title_idx on public.notes (title);
  create view public.titles with (security_invoker = true) as select n.id, n.title from public.notes as n where n.id > 0;
  create function public.touch() returns trigger language plpgsql as $$ begin return new; end $$;
  create function public.count_notes() returns bigint language sql stable begin atomic select count(*) from public.notes as n where n.id > 0; end;
  create function public.shout(text text) returns text language sql as $$ select upper(text) $$;
  create trigger _100_touch before update on public.notes for each row execute function public.touch();
  create trigger _200_touch before insert on public.notes for each row execute function public.touch();
  alter table public.notes enable row level security;
  create policy "all read" on public.notes for select using (id > 0);
  create policy "authors write" on public.notes to authenticated using (author = (select auth.uid()));
  grant select (id, title), insert (title) on public.notes to authenticated;
  grant select on public.titles to anon;
  grant delete on public.notes to authenticated;
  comment on column public.notes.id is '@behavior -*';
  comment on table public.notes is '@name remarks';
  create publication archive for table public.notes;
  create publication copies for table public.notes;`;

export const CHANGES = `
  drop table public.drafts;
  create table public.extras (id int primary key, text text); grant select on public.extras to anon;
  alter table public.notes drop column body, alter column title drop not null, add column extra text;
  alter table public.notes alter column id drop default;
  alter table public.notes drop constraint notes_title_length, add constraint notes_title_length check (char_length(title) < 200),
    add constraint notes_extra check (id > 0);
  drop index public.notes_author_idx, public.notes_title_idx;
  create index notes_title_idx on public.notes (title desc); create index notes_extra_idx on public.notes (extra);
  drop policy "all read" on public.notes;
  alter policy "authors write" on public.notes using (true);
  create policy "everyone writes" on public.notes to anon using (true);
  revoke delete on public.notes from authenticated; grant select on public.notes to anon;
  grant update (title) on public.notes to authenticated;
  drop function public.shout(text);
  create or replace function public.count_notes() returns bigint language sql stable begin atomic select count(*) from public.notes as n; end;
  create function public.whisper() returns text language sql as 'select null';
  drop trigger _100_touch on public.notes; alter table public.notes disable trigger _200_touch;
  create trigger _300_touch after insert on public.notes for each row execute function public.touch();
  drop type public.mark; alter type public.mood add value 'none'; create type public.size as enum ('s');
  alter sequence public.numbers increment 2; create sequence public.more;
  comment on table public.notes is '@name notes'; comment on column public.notes.title is '@deprecated';
  comment on column public.notes.id is null;
  alter table public.notes disable row level security;
  drop view public.titles; create view public.titles as select n.id, n.title from public.notes as n;
  drop publication archive; alter publication copies set (publish = 'insert'); create publication more for table public.notes;

  drop table realtime.messages; create table auth_private.spare (id int);
  alter table auth_private.mails drop constraint mails_email_length, alter column email drop not null;
  drop index auth_private.mails_user_id_idx; create index on auth_private.mails (email);
  drop trigger _500_announce on auth_private.accounts;
  create policy open on auth_private.mails to anon using (true);
  grant usage on schema auth_private to anon; revoke execute on function auth.uid() from anon;
  drop function auth_api.refuse_sign_up() cascade;
  create or replace function auth.is_admin() returns boolean language sql stable parallel safe return true;
  create function auth.spare() returns int language sql as 'select 1';
  comment on function auth.is_email(text) is null;
  drop event trigger if exists announce_schema_drop;
  alter publication content_changes set (publish = 'insert');
  grant service_role to anon; alter role authenticated createdb;`;

/** What the changes are, with everything that follows from them left out. */
export const FOUND = [
  "application",
  ...["missing type public.mark", "changed type public.mood", "extra type public.size"],
  ...["changed sequence public.numbers", "extra sequence public.more"],
  ...["missing table public.drafts", "extra table public.extras"],
  ...["missing column public.notes.body", "changed column public.notes.title", "extra column public.notes.extra"],
  "changed column public.notes.id",
  "missing constraint notes_body_length on public.notes",
  "changed constraint notes_title_length on public.notes",
  "extra constraint notes_extra on public.notes",
  ...["missing index public.notes_author_idx", "changed index public.notes_title_idx"],
  "extra index public.notes_extra_idx",
  ...['missing policy "all read" on public.notes', 'changed policy "authors write" on public.notes'],
  'extra policy "everyone writes" on public.notes',
  "missing grants on table public.notes to authenticated",
  "changed grants on column public.notes.title to authenticated",
  "extra grants on table public.notes to anon",
  ...[
    "missing function public.shout(text)",
    "changed function public.count_notes()",
    "extra function public.whisper()",
  ],
  ...["missing trigger _100_touch on public.notes", "changed trigger _200_touch on public.notes"],
  "extra trigger _300_touch on public.notes",
  ...["missing comment on column public.notes.id", "changed comment on table public.notes"],
  "extra comment on column public.notes.title",
  "changed table public.notes",
  ...["changed view public.titles", "missing grants on view public.titles to anon"],
  ...["missing publication archive", "changed publication copies", "extra publication more"],

  "modules of the service",
  "extra table auth_private.spare",
  ...["changed column auth_private.mails.email", "missing constraint mails_email_length on auth_private.mails"],
  ...["missing index auth_private.mails_user_id_idx", "extra index auth_private.mails_email_idx"],
  ...["missing function auth_api.refuse_sign_up()", "missing trigger _500_announce on auth_private.accounts"],
  ...["extra policy open on auth_private.mails", "extra grants on schema auth_private to anon"],
  "missing comment on function auth.is_email(text)",

  "missing table realtime.messages",
  ...[
    "changed function auth.is_admin()",
    "extra function auth.spare()",
    "missing grants on function auth.uid() to anon",
  ],
  ...["extra membership anon in service_role", "changed role authenticated"],

  ...["missing event trigger announce_schema_drop", "changed publication content_changes"],
];

/** `missing table public.drafts`, in the order of the output, below the name of each part. */
export const foundIn = (stdout: string): readonly string[] =>
  stdout
    .split("\n")
    .filter((line) => /^( {2}(missing|changed|extra) |application$|modules of the service$)/.test(line))
    .map((line) => line.trim().replace(/ +/, " "));
