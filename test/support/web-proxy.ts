import { existsSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { newCertificate } from "./certificate.ts";
import { Program } from "./program.ts";
import { accepts } from "./until.ts";

/** The name in the configurations of deploy/proxy/, which resolves nowhere. */
export const PUBLIC_HOST = "api.example.com";

/** The main file of nginx, into which the one of deploy/proxy/ is included as in /etc/nginx/conf.d/. */
const NGINX = (folder: string) => `
user root;
daemon off;
pid ${folder}/pid;
events {}
http {
${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `  ${name}_temp_path ${folder}/${name};\n`).join("")}
  include ${folder}/site;
}
`;

type Ports = { readonly own: number; readonly ofService: number };

type WebProxyKind = {
  readonly program: string;
  command(folder: string): readonly [string, ...string[]];
  /** Its file in deploy/proxy/. */
  readonly file: string;
  /** The text of that file with these ports, and the certificate in the folder. */
  withPorts(text: string, ports: Ports, folder: string): string;
};

const SERVICE = "127.0.0.1:3000";

export const WEB_PROXIES = {
  nginx: {
    program: "/usr/sbin/nginx",
    file: "nginx.conf",
    command: (folder) => ["/usr/sbin/nginx", "-e", "stderr", "-c", join(folder, "main")],
    withPorts: (text, { own, ofService }, folder) =>
      text
        .replace(SERVICE, `127.0.0.1:${ofService}`)
        .replace("listen 443", `listen 127.0.0.1:${own}`)
        .replace("/etc/ssl/api.example.com.pem", join(folder, "certificate"))
        .replace("/etc/ssl/api.example.com.key", join(folder, "key"))
        .replace("/var/log/nginx/content.log", join(folder, "log")),
  },
  caddy: {
    program: "/usr/bin/caddy",
    file: "Caddyfile",
    command: (folder) => ["/usr/bin/caddy", "run", "--adapter", "caddyfile", "--config", join(folder, "site")],
    withPorts: (text, { own, ofService }, folder) =>
      `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${text
        .replace(SERVICE, `127.0.0.1:${ofService}`)
        .replace(
          `${PUBLIC_HOST} {`,
          `${PUBLIC_HOST}:${own} {\n\tbind 127.0.0.1\n\ttls ${join(folder, "certificate")} ${join(folder, "key")}`,
        )}`,
  },
  haproxy: {
    program: "/usr/sbin/haproxy",
    file: "haproxy.cfg",
    command: (folder) => ["/usr/sbin/haproxy", "-db", "-f", join(folder, "site")],
    withPorts: (text, { own, ofService }, folder) =>
      text
        .replace("10.0.0.11:3000", `127.0.0.1:${ofService}`)
        .replace(/^ {2}server b .*\n/m, "")
        .replace("127.0.0.1:8080", `127.0.0.1:${own} ssl crt ${join(folder, "both")} alpn h2,http/1.1`),
  },
} as const satisfies Readonly<Record<string, WebProxyKind>>;

export type WebProxyName = keyof typeof WEB_PROXIES;

/** Those that are installed. */
export const webProxies = Object.keys(WEB_PROXIES).filter((name): name is WebProxyName => {
  const { program } = WEB_PROXIES[name as WebProxyName];
  const isInstalled = existsSync(program);
  if (!isInstalled) console.warn(`skipped: the service behind ${name}, because ${program} is not installed`);
  return isInstalled;
});

/** The proxy with its configuration of deploy/proxy/, in front of the service at this port. */
export async function startWebProxy(name: WebProxyName, ofService: number) {
  const { file, command, withPorts }: WebProxyKind = WEB_PROXIES[name];
  const port = await findFreePort();
  const folder = await mkdtemp(join(tmpdir(), `${name}-`));
  await chmod(folder, 0o755);
  const { certificate, privateKey } = newCertificate(PUBLIC_HOST);
  const text = await readFile(join("deploy/proxy", file), "utf8");
  const site = withPorts(text, { own: port, ofService }, folder);
  const both = certificate + privateKey;
  for (const [each, content] of Object.entries({ certificate, key: privateKey, both, site, main: NGINX(folder) }))
    await writeFile(join(folder, each), content);
  const program = await Program.start({
    command: command(folder),
    environment: { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    log: join(folder, "output"),
    isReady: () => accepts(port),
  });
  return {
    ...{ port, program, folder },
    async stop() {
      await program.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
