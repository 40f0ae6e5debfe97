import type { ClientBase } from "pg";
import type { Logger } from "pino";
import type { GraphQLSchema } from "postgraphile/graphql";
import type { Application } from "../app/application.ts";
import type { Config } from "../config/config.ts";
import type { ProviderKind } from "../config/provider-entry.ts";
import type { LiveCatalog } from "../db/catalog/live.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { OpenedDatabase } from "../db/cluster/open.ts";
import type { Database } from "../db/database.ts";
import type { Finding } from "../db/findings/finding.ts";
import type { Findings } from "../db/findings/findings.ts";
import type { LiveSettings } from "../db/follow/live-settings.ts";
import type { Rights } from "../db/rights/rights.ts";
import type { Html, Link } from "../gate/pages/html.ts";
import type { IconName } from "../gate/pages/icons.ts";
import type {
  AlwaysOnInterface,
  HttpEnvelope,
  HttpInterface,
  Pipeline,
  PipelineContext,
  ServiceState,
} from "../gate/pipeline/pipeline.ts";
import type { DeferredGraphQL } from "../graphql/deferred.ts";
import type { CallerResolver } from "../identity/caller-resolver.ts";
import type { Asset } from "../pages/assets.ts";
import type { Documents } from "../pages/documents.ts";
import type { CreateFederated, DiagnoseProvider } from "../rest-gateway/auth/federated.ts";
import type { CreateMails } from "../rest-gateway/auth/mail/mails.ts";
import type { CreatePasskeys } from "../rest-gateway/auth/passkeys/passkeys.ts";
import type { RoutedAuth, Routes } from "../rest-gateway/auth/route.ts";
import type { Descriptions } from "../rest-gateway/descriptions.ts";
import type { CreateTasks, Tasks } from "../rest-gateway/tasks/tasks.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Phases } from "../telemetry/span.ts";

/** What the service can do without: a folder in parts/ with a line in parts/list.ts. Every member but the first two may be absent. */
export type Part = {
  /** Also its folder, and its name in PARTS. */
  readonly name: string;
  /** What it is, in one line. */
  readonly about: string;
  /** The parts that must be open before. */
  readonly needs?: readonly string[];
  /** What it serves. `/console/*` is `/console` and every path below it. */
  readonly paths?: readonly string[];
  /** Whether its pages are for operators alone: with ADMIN_PORT they are on that port. */
  readonly isForOperators?: boolean;
  /** Its pages, in the header of all pages, on the start page and in what the command prints. */
  pages?(config: Config): readonly PartPage[];
  /** Whether it has the pages for sign-in and accounts, to which other pages link. */
  readonly hasAccountPages?: boolean;
  /** Files at `/assets/…`. */
  readonly assets?: readonly Asset[];
  /** Documents below `/docs`. */
  documents?(application: Pick<Application, "folder">): Documents;
  /** Loads its plugins of PostGraphile, which follow those of the core. */
  plugins?(): Promise<readonly GraphileConfig.Plugin[]>;
  /** What describes the REST interfaces. */
  readonly descriptions?: Descriptions;
  /** The form of its errors while the service starts; the default is that of the REST endpoints. */
  readonly errors?: HttpEnvelope;
  /** Routes of authentication: they are served with those of the core, and described with them in the OpenAPI documents. */
  readonly authRoutes?: Routes;
  /** The kinds of identity providers at which users sign in. */
  readonly providerKinds?: readonly ProviderKind[];
  /** What signs users in at identity providers, those of the kinds of all parts. */
  readonly federated?: CreateFederated;
  readonly diagnoseProvider?: DiagnoseProvider;
  /** What runs requests that clients do not wait for, and the tasks of the application. */
  readonly tasks?: CreateTasks;
  /** What sends e-mails, and signs in by them. */
  readonly mails?: CreateMails;
  /** What creates and verifies passkeys. */
  readonly passkeys?: CreatePasskeys;
  /** Throws ConfigError for files of the application that it cannot use. It is called before the database changes. */
  check?(application: Pick<Application, "mailFolder">, config: Config): void;
  /** Operations that run on this schema, for pages. */
  examples?(schema: GraphQLSchema): Promise<readonly Example[]>;
  /** Its pages of the console. */
  consolePages?(core: Core): readonly ConsolePage[];
  /** Serves its paths from the first moment, while the service starts and stops too, and on ADMIN_PORT. */
  openEarly?(base: Base): AlwaysOnInterface;
  /** Serves its paths when the service is ready. */
  open?(core: Core): OpenPart | Promise<OpenPart>;
  /** The folder of its rules for the advisor. */
  readonly rules?: URL;
  /** What it finds wrong in the database of a command that tries migrations, for callers with these roles; by default those of the settings. */
  inspect?(
    client: ClientBase,
    base: Pick<Base, "config" | "parts">,
    roles?: readonly string[],
  ): Promise<readonly Finding[]>;
  /** What the login of `client` may not do that the service needs. Null if it lacks nothing. */
  missingRights?(client: ClientBase, use: RightsUse): Promise<MissingRights | null>;
};

/** What the service does in a database. */
export type RightsUse = {
  /** Whether it runs migrations of the application. */
  readonly runsMigrations: boolean;
  /** Whether a start makes roles, and renews their passwords. */
  readonly makesRoles: boolean;
  /** The served schemas; without them, those that `init` would choose. */
  readonly schemas?: readonly string[];
};

export type MissingRights = {
  /** `As postgres, or as a superuser of the server, run: grant create on schema public to shop_owner;` */
  readonly cure: string;
  /** Whether the first start would fail, and whether a later one would. */
  readonly stopsFirst: boolean;
  readonly stopsLater: boolean;
};

/** An operation of GraphQL. `variables` is JSON, or "". */
export type Example = { readonly name: string; readonly query: string; readonly variables: string };

/** A page for people. Without `about` it is only in the header. */
export type PartPage = Link & {
  readonly icon?: IconName;
  /** What one does there, after its name. */
  readonly about?: string;
  /** Its name in what the command prints, if it is there. */
  readonly banner?: string;
  /** The path at which a service key signs in, from the fragment of the URL. */
  readonly signIn?: string;
};

/** A page of the console, for operators, at a path below `/console`. */
export type ConsolePage = Link & {
  readonly icon: IconName;
  render(query: URLSearchParams): Promise<Html>;
  /** What the page Activity shows of it. */
  newest?(): Promise<Html>;
};

export type OpenPart = {
  /** Null if the settings leave nothing to serve. */
  readonly http?: HttpInterface | null;
  /** Waits until what it does in the background is done. */
  settled?(): Promise<void>;
  close?(): void | Promise<void>;
};

/** What is there before the database is open. */
export type Base = {
  readonly config: Config;
  readonly application: Application;
  /** Every part that is open, this one included. */
  readonly parts: readonly Part[];
  /** The links of the header. */
  readonly links: readonly Link[];
  /** The pages of all parts on this port. */
  readonly pages: readonly PartPage[];
  /** Whether pages may link to `/auth/sign-in` and `/auth/account`. */
  readonly hasAccountPages: boolean;
  /** The URL of the service. */
  url(): string;
  state(): ServiceState;
  /** Null until the service is ready. */
  core(): Core | null;
  onInternalError(error: unknown, requestId: string): void;
};

/** What a part may use of a service that runs, and nothing else. */
export type Core = Omit<Base, "url" | "core" | "state"> & {
  readonly url: string;
  readonly log: Logger;
  readonly settings: LiveSettings;
  /** Where a part registers its own. */
  readonly metrics: Metrics;
  /** The metrics of the service, as text. */
  readMetrics(): Promise<string>;
  /** From which keys of the service are derived. */
  readonly secret: string;
  readonly opened: OpenedDatabase;
  readonly database: Database;
  readonly catalog: LiveCatalog;
  readonly rights: Rights;
  readonly changes: ChangeFeed;
  readonly callers: CallerResolver;
  /** Null without accounts. */
  readonly auth: RoutedAuth | null;
  /** Null where there are none. */
  readonly tasks: Tasks | null;
  /** Null when it is not served. */
  readonly graphql: DeferredGraphQL | null;
  readonly findings: Findings;
  /** The key for anonymous requests, which pages may show; null if none is needed. */
  readonly anonKey: string | null;
  /** The supported versions of the resources; none where they are not served. */
  readonly versions: readonly number[];
  /** A pipeline without limits for requests of the part itself: to tables, resources and GraphQL, or to the routes of authentication. */
  pipeline(served: "data" | "auth", callers: PipelineContext["callers"], phases?: Phases): Pipeline;
};
