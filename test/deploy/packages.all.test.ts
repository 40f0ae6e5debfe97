import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2019 } from "ajv/dist/2019.js";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { PROJECT } from "../support/command.ts";
import { describeSettings } from "../support/config.ts";

// TypeScript does not follow this name: the root does not have these packages.
const SCHEMAS: string = "../../build/schemas/index.js";
const { composeSchema, ...models } = await import(SCHEMAS);

const read = (file: string) => readFileSync(join("deploy", file), "utf8");
const { scripts, version, files } = JSON.parse(readFileSync("package.json", "utf8"));
/** `cli/content-service.ts start` */
const ARGUMENTS = /^exec node (.* start) demo$/.exec(scripts.start)![1]!;
const drainSeconds = Number(describeSettings().find(({ name }) => name === "DRAIN_TIMEOUT")!.fallback) / 1000;

/** In what these schemas use, the versions of JSON Schema do not differ. `id` is a name of older ones. */
const faultsOf = ({ $schema: _, ...schema }: { $schema?: string }, value: unknown) => {
  const ajv = new Ajv2019({ strict: false, validateFormats: false, allErrors: true }).removeKeyword("id");
  ajv.validate(schema, value);
  return (ajv.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
};

describe("the Dockerfile", () => {
  test("starts the service as npm start does", () => {
    const entrypoint = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(read("image/Dockerfile"))![1]!);
    expect(entrypoint.slice(1).join(" ")).toBe(ARGUMENTS);
  });

  test("gets every file that the image is built from", () => {
    const sent = read("image/Dockerfile.dockerignore")
      .split("\n")
      .filter((line) => line.startsWith("!"));
    expect(sent).toEqual(
      expect.arrayContaining(["!package-lock.json", "!deploy/image", ...files.map((file: string) => `!${file}`)]),
    );
  });
});

describe("what npm ci --omit=dev installs", () => {
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
  const installed = Object.entries<{ readonly dev?: true }>(packages).filter(([, { dev }]) => !dev);
  const names = installed.map(([path]) => path.replace(/^.*node_modules\//, ""));

  test("has no program of the benchmarks and tests", () => {
    expect(names).toContain("postgraphile");
    for (const name of ["vitest", "playwright-core", "oidc-provider"]) expect(names).not.toContain(name);
  });
});

describe("the compose file", () => {
  const compose = parse(read("compose.yaml"));

  test("is valid", () => {
    expect(faultsOf(composeSchema, compose)).toEqual([]);
    expect(faultsOf(composeSchema, { services: { service: { imago: "x" } } })).not.toEqual([]);
  });

  test("starts the service after its database, on a read-only file system, with what must last, and gives it time to stop", () => {
    const { service, database } = compose.services;
    expect(service).toMatchObject({
      read_only: true,
      cap_drop: ["ALL"],
      depends_on: { database: { condition: "service_healthy" } },
      environment: { JWT_SECRET: expect.any(String), MFA_KEY: expect.any(String), INSTANCE_ID: expect.any(String) },
    });
    expect(Number.parseInt(service.stop_grace_period, 10)).toBeGreaterThan(drainSeconds);
    expect(database.command.join(" ")).toContain("wal_level=logical");
    expect(existsSync(join("deploy", service.build.context, service.build.dockerfile))).toBe(true);
  });
});

test("the limits on memory are those that docs/deployment.md plans", () => {
  const planned = /Plan (\d+) GB for a process/.exec(readFileSync("docs/deployment.md", "utf8"))![1];
  expect(parse(read("helm/content-service/values.yaml")).resources.limits.memory).toBe(`${planned}Gi`);
  expect(parse(read("compose.yaml")).services.service.mem_limit).toBe(`${planned}g`);
});

describe("the systemd unit", () => {
  const unit = read("systemd/content-service@.service");

  test("starts the service as npm start does, and gives it time to stop", () => {
    expect(/^ExecStart=\S+ (.*)$/m.exec(unit)![1]).toBe(ARGUMENTS);
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)![1])).toBeGreaterThan(drainSeconds);
  });

  test("systemd-analyze finds no fault and little exposure", (context) => {
    context.skip(!existsSync("/usr/bin/systemd-analyze"), "systemd-analyze is not installed");
    const folder = mkdtempSync(join(tmpdir(), "content-service-unit-"));
    const file = join(folder, "content-service@.service");
    // The program must exist.
    writeFileSync(file, unit.replaceAll("/opt/content-service/%i/", PROJECT));
    const verified = spawnSync("systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8" });
    const security = spawnSync("systemd-analyze", ["security", "--offline=true", "--threshold=20", file]);
    rmSync(folder, { recursive: true });
    expect([verified.status, verified.stderr, security.status]).toEqual([0, "", 0]);
  });
});

describe("the Helm chart", () => {
  const chart = "helm/content-service";
  const schema = JSON.parse(read(`${chart}/values.schema.json`));
  const defaults = parse(read(`${chart}/values.yaml`));

  test("has the version of the service", () => {
    expect(parse(read(`${chart}/Chart.yaml`))).toMatchObject({
      apiVersion: "v2",
      name: "content-service",
      version,
      appVersion: version,
    });
  });

  test("describes its values: the Secret must be named, and misspelt or reserved names are refused", () => {
    expect(faultsOf(schema, { ...defaults, existingSecret: "content" })).toEqual([]);
    expect(faultsOf(schema, defaults)).toEqual(["/existingSecret must NOT have fewer than 1 characters"]);
    expect(Object.keys(defaults).sort()).toEqual(
      Object.keys(schema.properties)
        .filter((name) => name !== "global")
        .sort(),
    );
    const faulty = {
      existingSecret: "content",
      replica: 3,
      settings: { PORT: 80 },
      ingress: { enabled: true, host: "" },
    };
    expect(faultsOf(schema, faulty).map((fault) => fault.split(" ")[0])).toEqual(
      expect.arrayContaining(["", "/settings", "/ingress/host"]),
    );
  });

  const GO = "/usr/share/gocode";
  const hasGo = existsSync(join(GO, "src/github.com/Masterminds/sprig")) && spawnSync("go", ["version"]).status === 0;

  const several = { existingSecret: "content", redis: { existingSecret: "content-redis" } };

  /** The objects of the chart, as helm template renders them. */
  const render = (values: object) => {
    const folder = mkdtempSync(join(tmpdir(), "content-service-chart-"));
    cpSync("test/deploy/render-chart.go", join(folder, "render.go"));
    const output = execFileSync(
      "go",
      ["run", join(folder, "render.go"), join(PROJECT, "deploy", chart), JSON.stringify(values)],
      {
        encoding: "utf8",
        env: { PATH: process.env.PATH, GO111MODULE: "off", GOPATH: GO, GOCACHE: join(tmpdir(), "content-service-go") },
      },
    );
    rmSync(folder, { recursive: true });
    const objects = parseAllDocuments(output.slice(output.indexOf("---"))).map((document) => document.toJS());
    return objects.filter((object) => object !== null);
  };

  test.skipIf(!hasGo).each([
    [{ existingSecret: "content", replicas: 1 }, ["Deployment", "Service"]],
    [
      {
        existingSecret: "content",
        replicas: 2,
        redis: { existingSecret: "content-redis" },
        settings: { BASE_URL: "https://api.example.com", WORKERS: 2 },
        ingress: {
          enabled: true,
          host: "api.example.com",
          className: "nginx",
          tlsSecret: "tls",
          annotations: { a: "b" },
        },
        podAnnotations: { "prometheus.io/port": "3001" },
        nodeSelector: { disk: "ssd" },
        tolerations: [{ key: "a", operator: "Exists" }],
        imagePullSecrets: [{ name: "registry" }],
      },
      ["Deployment", "Ingress", "PodDisruptionBudget", "Service"],
    ],
    [
      {
        existingSecret: "content",
        settings: { REDIS_URL: "redis://valkey:6379" },
        autoscaling: { enabled: true, maxReplicas: 10 },
        networkPolicy: {
          enabled: true,
          clients: [{ namespaceSelector: { matchLabels: { name: "ingress" } } }],
          operators: [{ podSelector: { matchLabels: { app: "prometheus" } } }],
          egress: [{ ports: [{ port: 5432 }], to: [{ ipBlock: { cidr: "10.0.0.0/8" } }] }],
        },
        serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
        volumes: [{ name: "cache", emptyDir: {} }],
        volumeMounts: [{ name: "cache", mountPath: "/var/cache/content-service" }],
      },
      [
        "Deployment",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "Service",
        "ServiceMonitor",
      ],
    ],
  ])("with the values %j its objects are valid: %j", (values, kinds) => {
    expect(faultsOf(schema, { ...defaults, ...values })).toEqual([]);
    const rendered = render(values);
    expect(rendered.map(({ kind }) => kind)).toEqual(kinds);
    for (const object of rendered) new models[object.kind](object).validate();
    const [{ spec }] = rendered;
    const [container] = spec.template.spec.containers;
    expect(container.image).toBe(`content-service:${version}`);
    expect(spec.template.spec.terminationGracePeriodSeconds).toBeGreaterThan(
      drainSeconds + Number(container.env.find(({ name }: { name: string }) => name === "DRAIN_DELAY").value) / 1000,
    );
    // Probes come from the node.
    expect(container.env).toContainEqual({ name: "ADMIN_HOST", value: "0.0.0.0" });
    for (const { name, value } of container.env) expect([typeof name, typeof value]).toEqual(["string", "string"]);
  });

  test.skipIf(!hasGo)("mounts the files that settings name, from a Secret and from a ConfigMap", () => {
    const settings = Object.fromEntries(
      describeSettings()
        .filter(({ about }) => /\bfiles?\b/i.test(about))
        .map(({ name }) => [name, `/etc/content-service/${name.toLowerCase()}`]),
    );
    expect(Object.keys(settings)).toEqual(expect.arrayContaining(["AUTH_PROVIDERS", "JWT_ISSUERS", "SETTINGS_FILE"]));
    const values = {
      existingSecret: "content",
      settings,
      files: { existingSecret: "content-files", existingConfigMap: "content-documents" },
    };
    expect(faultsOf(schema, { ...defaults, ...values })).toEqual([]);
    const [{ spec }] = render(values);
    expect(spec.template.spec.containers[0].volumeMounts).toEqual([
      { name: "files", mountPath: "/etc/content-service", readOnly: true },
    ]);
    expect(spec.template.spec.volumes[0].projected.sources).toEqual([
      { secret: { name: "content-files" } },
      { configMap: { name: "content-documents" } },
    ]);
  });

  test.skipIf(!hasGo)("spreads its pods, and lets the autoscaler choose their number", () => {
    const [fixed] = render({ ...several, replicas: 3 });
    expect(fixed.spec.replicas).toBe(3);
    expect(fixed.spec.template.spec.topologySpreadConstraints.map((one: any) => one.topologyKey)).toEqual([
      "topology.kubernetes.io/zone",
      "kubernetes.io/hostname",
    ]);
    const scaled = render({ ...several, autoscaling: { enabled: true } });
    expect(scaled[0].spec).not.toHaveProperty("replicas");
    expect(scaled.find(({ kind }) => kind === "HorizontalPodAutoscaler").spec).toMatchObject({
      scaleTargetRef: { kind: "Deployment", name: scaled[0].metadata.name },
      minReplicas: defaults.autoscaling.minReplicas,
    });
  });

  test.skipIf(!hasGo).each([{ replicas: 2 }, { autoscaling: { enabled: true } }])(
    "with several pods, %j, requires what they share limits through",
    (values) => {
      expect(() => render({ existingSecret: "content", ...values })).toThrow("several pods require Valkey or Redis");
      const [{ spec }] = render({ ...several, ...values });
      expect(spec.template.spec.containers[0].envFrom.map((one: any) => one.secretRef.name)).toEqual([
        "content",
        "content-redis",
      ]);
    },
  );

  test.skipIf(!hasGo)("gives metrics to those who may read them, and to no client", () => {
    const objects = render({
      existingSecret: "content",
      serviceMonitor: { enabled: true },
      networkPolicy: { enabled: true },
    });
    const services = objects.filter(({ kind }) => kind === "Service");
    expect(services.map(({ spec }) => [spec.clusterIP, spec.ports[0].targetPort])).toEqual([
      [undefined, "http"],
      ["None", "admin"],
    ]);
    const policy = objects.find(({ kind }) => kind === "NetworkPolicy").spec;
    expect([policy.policyTypes, policy.ingress]).toEqual([["Ingress"], [{ ports: [{ port: "http" }] }]]);
    const monitor = objects.find(({ kind }) => kind === "ServiceMonitor").spec;
    expect(services.filter(({ metadata }) => isSelected(monitor.selector.matchLabels, metadata.labels))).toEqual([
      services[1],
    ]);
  });
});

const isSelected = (wanted: Record<string, string>, labels: Record<string, string>) =>
  Object.entries(wanted).every(([name, value]) => labels[name] === value);
