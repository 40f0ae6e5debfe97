import type { Application } from "../app/application.ts";
import { placeOf } from "../app/origin.ts";
import type { Commands } from "../config/command.ts";
import { type Config, ConfigError } from "../config/config.ts";
import type { DeclaredSettings } from "../config/declared.ts";
import type { ModuleName } from "../config/modules.ts";
import { type ChoosablePart, isPartOpen } from "../config/parts.ts";
import type { ProviderKind } from "../config/provider-entry.ts";
import type { AlwaysOnInterface, HttpEnvelope, HttpInterface } from "../gate/pipeline/pipeline.ts";
import { createPages } from "../pages/pages.ts";
import type { AuthParts } from "../rest-gateway/auth/parts.ts";
import type { Routes } from "../rest-gateway/auth/route.ts";
import { ROUTES } from "../rest-gateway/auth/routes.ts";
import type { Descriptions } from "../rest-gateway/descriptions.ts";
import type { Base, Core, OpenPart, Part, PartPage } from "./part.ts";

/** A line of the list of all parts. */
export type ListedPart = ChoosablePart & {
  /** A part that is not open is not loaded. */
  load(): Promise<Part>;
  /** The modules of the database that it uses. */
  readonly modules?: readonly ModuleName[];
  /** The commands that it brings, whether it is open or not. */
  readonly commands?: Commands;
  /** Loads the settings that it declares, whether it is open or not. */
  readonly settings?: () => Promise<DeclaredSettings>;
};

type PartSettings = Pick<Config, "parts" | "embedded">;

/** The parts that are open with these settings, in the order of the list. Throws ConfigError. */
function chooseParts(list: readonly ListedPart[], settings: PartSettings): readonly ListedPart[] {
  const unknown = settings.parts
    .map(nameIn)
    .filter((name) => name !== "none" && !list.some((each) => each.name === name));
  if (unknown.length > 0)
    throw new ConfigError(
      `PARTS names ${unknown.join(", ")}, which is not a part; the parts are ${list.map(({ name }) => name).join(", ")}`,
    );
  return list.filter((each) => isPartOpen(each, settings));
}

/** `+console` → `console` */
const nameIn = (text: string) => text.replace(/^[+-]/, "");

/** The parts of the service, and those of an application. What these have is in the application itself. Throws ConfigError. */
export function withOwnParts(
  list: readonly ListedPart[],
  { parts, folder }: Pick<Application, "parts" | "folder">,
): readonly ListedPart[] {
  const taken = parts.find(({ name }) => list.some((each) => each.name === name));
  if (taken)
    throw new ConfigError(`${placeOf(taken, folder)}: the service has a part named ${taken.name}: choose another name`);
  return [
    ...list,
    ...parts.map(({ name, about, rules }) => ({ name, load: async () => ({ name, about, ...(rules && { rules }) }) })),
  ];
}

/**
 * Loads the parts that are open with these settings, and what they need. What needs a part that PARTS leaves out is left out too. Throws
 * ConfigError if PARTS names it to be open.
 */
export async function loadParts(list: readonly ListedPart[], settings: PartSettings): Promise<readonly Part[]> {
  const open = new Set(chooseParts(list, settings));
  const parts = new Map<ListedPart, Part>();
  // A set also goes through what is added meanwhile.
  for (const listed of open) {
    const part = await listed.load();
    parts.set(listed, part);
    for (const needed of part.needs ?? []) open.add(list.find(({ name }) => name === needed)!);
  }
  const leftOut = new Set(settings.parts.filter((text) => text.startsWith("-")).map(nameIn));
  // The parts that need one of these, those that need one of them, and so on: a set also goes through what is added meanwhile.
  for (const needed of leftOut) {
    for (const { name, needs = [] } of parts.values()) {
      if (!needs.includes(needed)) continue;
      if (settings.parts.includes(`+${name}`))
        throw new ConfigError(`PARTS leaves out ${needed}, which ${name} needs: leave out both, or neither`);
      leftOut.add(name);
    }
  }
  return list.flatMap((listed) => (leftOut.has(listed.name) ? [] : (parts.get(listed) ?? [])));
}

/** The parts of a service. Throws ConfigError, also if a setting needs one that is not open, or one cannot use a file of the application. */
export async function partsFor(
  list: readonly ListedPart[],
  config: Config,
  application: Pick<Application, "mailFolder">,
): Promise<readonly Part[]> {
  const parts = await loadParts(list, config);
  const { hasAuth, emailConfirm } = config;
  if (hasAuth && emailConfirm !== "off" && !parts.some(({ mails }) => mails))
    throw new ConfigError(`EMAIL_CONFIRM=${emailConfirm} needs the part mail: open it, or set EMAIL_CONFIRM=off`);
  for (const part of parts) part.check?.(application, config);
  config.providers.with(providerKindsOf(parts)).readFile();
  return parts;
}

/** The kinds of identity providers at which users sign in. */
export const providerKindsOf = (parts: readonly Part[]): readonly ProviderKind[] =>
  parts.flatMap(({ providerKinds }) => providerKinds ?? []);

/** What parts bring to authentication. */
export const authPartsOf = (parts: readonly Part[], config: Config): AuthParts => ({
  hasAccountPages: hasAccountPages(parts, config),
  providerKinds: providerKindsOf(parts),
  createFederated: parts.find(({ federated }) => federated)?.federated ?? null,
  createMails: parts.find(({ mails }) => mails)?.mails ?? null,
  createPasskeys: parts.find(({ passkeys }) => passkeys)?.passkeys ?? null,
});

/** What describes the REST interfaces; null without the part for it. */
export const descriptionsOf = (parts: readonly Part[]): Descriptions | null =>
  parts.find(({ descriptions }) => descriptions)?.descriptions ?? null;

/** The routes of authentication, those of parts included. */
export const authRoutesOf = (parts: readonly Part[]): Routes =>
  Object.assign({}, ROUTES, ...parts.map(({ authRoutes }) => authRoutes));

/** Loads the plugins of PostGraphile: those of the settings, of the parts that are open, and then of the application. */
export async function loadPlugins(
  parts: readonly Part[],
  application: Pick<Application, "plugins">,
  { graphqlExtras }: Pick<Config, "graphqlExtras">,
): Promise<readonly GraphileConfig.Plugin[]> {
  const { extrasOfAllTables } = await import("../graphql/index.ts");
  const loaded = [...parts, application].map((each) => each.plugins?.() ?? []);
  return [extrasOfAllTables(graphqlExtras), ...(await Promise.all(loaded)).flat()];
}

/** The pages of all parts. Those for operators are left out where another port has them. */
export const pagesOf = (parts: readonly Part[], config: Config, hasOperators: boolean): readonly ListedPage[] =>
  parts
    .filter((part) => hasOperators || !part.isForOperators)
    .flatMap(({ isForOperators = false, pages }) =>
      (pages?.(config) ?? []).map((page) => ({ ...page, isForOperators })),
    );

type ListedPage = PartPage & { readonly isForOperators: boolean };

/** What a port serves from the first moment. */
type EarlyRoutes = {
  /** The documents and assets of all parts. */
  readonly pages: AlwaysOnInterface;
  /** Path → interface of a part. */
  readonly ofParts: Readonly<Record<string, AlwaysOnInterface>>;
  /** Path → the form of errors there, until the part is open. */
  readonly errors: Readonly<Record<string, HttpEnvelope>>;
};

/** What a port needs of the parts before the database is open. */
export type PortBase = Omit<Base, "links" | "pages" | "hasAccountPages">;

/** Path → what is served there from the first moment: documents, assets, and what parts open early. */
export function openEarly(base: PortBase, hasOperators: boolean): EarlyRoutes {
  const forPort = baseOf(base, hasOperators);
  const pages = createPages({
    documents: base.parts.flatMap((part) => part.documents?.(base.application) ?? []),
    assets: base.parts.flatMap(({ assets = [] }) => assets),
    links: forPort.links,
    onInternalError: base.onInternalError,
  });
  const ofParts = base.parts.flatMap((part) => {
    const early = part.openEarly?.(forPort);
    return early ? (part.paths ?? []).map((path) => [path, early] as const) : [];
  });
  const errors = base.parts.flatMap(({ paths = [], errors: form }) =>
    form ? paths.map((path) => [path, form] as const) : [],
  );
  return { pages, ofParts: Object.fromEntries(ofParts), errors: Object.fromEntries(errors) };
}

/** Whether a part has the pages for sign-in and accounts, and the application none of its own. */
const hasAccountPages = (parts: readonly Part[], { hasAuth, authPagesUrl }: Config): boolean =>
  hasAuth && authPagesUrl === "" && parts.some((part) => part.hasAccountPages);

/** The links and pages of a port. */
export function baseOf<T extends Pick<Base, "parts" | "config">>(base: T, hasOperators: boolean) {
  const pages = pagesOf(base.parts, base.config, hasOperators);
  const links = pages.map(({ path, name }) => ({ path, name }));
  return { ...base, pages, links, hasAccountPages: hasAccountPages(base.parts, base.config) };
}

/** The parts of a service that runs. */
export type OpenParts = {
  /** Path → interface. */
  readonly routes: Readonly<Record<string, HttpInterface>>;
  /** The same for operators. */
  readonly operatorRoutes: Readonly<Record<string, HttpInterface>>;
  /** Waits until what they do in the background is done. */
  settled(): Promise<void>;
  close(): Promise<void>;
};

/** Opens the parts one after another. Rejects, with none left open, if one cannot be opened. */
export async function openParts(core: Core): Promise<OpenParts> {
  const routes: Record<string, HttpInterface> = {};
  const operatorRoutes: Record<string, HttpInterface> = {};
  const all: OpenPart[] = [];
  const settled = async () => void (await Promise.all(all.map((each) => each.settled?.())));
  const close = async () => void (await Promise.all(all.splice(0).map((each) => each.close?.())));
  try {
    for (const part of core.parts) {
      const { paths = [], isForOperators } = part;
      const opened = await part.open?.(isForOperators ? baseOf(core, true) : core);
      if (opened) all.push(opened);
      for (const path of opened?.http ? paths : []) (isForOperators ? operatorRoutes : routes)[path] = opened!.http!;
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { routes, operatorRoutes, settled, close };
}
