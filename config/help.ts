import { COMMAND } from "./command.ts";
import { describeSettings, type Settings } from "./settings.ts";

/** The output of `content-service start --help`. `known` are all settings of the service, and `own` those of the application. */
export function helpText(
  known: Settings,
  own: readonly { readonly name: string; readonly about: string }[] = [],
): string {
  const described = describeSettings(known);
  const width = Math.max(...[...described, ...own].map(({ name }) => name.length)) + 2;
  const lineOf = (name: string, about: string) => `  ${name.padEnd(width)}${about}`.trimEnd();
  const lines = described.map(({ name, fallback, about }) =>
    lineOf(name, fallback === "" ? about : `${about} Default: ${fallback}.`),
  );
  const ofApplication = own.map(({ name, about }) => lineOf(name, about));
  return [
    "Content Service turns a PostgreSQL database into an API.",
    "",
    `  ${COMMAND} start           start the service`,
    `  ${COMMAND} start --help    show this help`,
    "",
    "Settings (environment variables):",
    ...lines,
    ...(ofApplication.length > 0 ? ["", "Settings of the application:", ...ofApplication] : []),
    "",
    "The settings of PostgREST (PGRST_…) are accepted as well, see docs/configuration.md.",
    "",
  ].join("\n");
}
