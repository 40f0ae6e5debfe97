import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ATTACKS } from "./attacks.ts";

/** The number of tries of each attack. */
export type Tries = Readonly<Record<string, number>>;

const NETWORKS = 20;
const ADDRESSES = 10;
/** Milliseconds between two tries of one address. */
const PAUSE = 200;

export const ABOUT_NETWORKS = `${NETWORKS} networks with ${ADDRESSES} IP addresses each`;

/**
 * The attackers of a real service are other machines. Here they run only while the service, the database and the measured client leave
 * a core free: otherwise a read would also wait for the work of the attackers. Source: sched(7), SCHED_IDLE.
 */
const IDLE = { execPath: "chrt", execArgv: ["--idle", "0", process.execPath] };

/** Lets all networks attack from a child process, each with the attack of this name, or with all. */
export async function startNetworks(address: string, name: string | null): Promise<{ stop(): Promise<Tries> }> {
  const child = fork(fileURLToPath(import.meta.url), IDLE);
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
  await once(child, "spawn");
  child.send({ address, name } satisfies Order);
  return {
    async stop() {
      child.send("stop");
      const [tries] = await once(child, "message");
      child.kill("SIGKILL");
      return tries as Tries;
    },
  };
}

type Order = { readonly address: string; readonly name: string | null };

function attack({ address, name }: Order): void {
  const end = new AbortController();
  const tries: Record<string, number> = {};
  const attacks = ATTACKS.filter((each) => name === null || each.name === name);
  for (let network = 1; network <= NETWORKS; network++)
    for (let host = 0; host < ADDRESSES; host++) {
      const each = attacks[host % attacks.length]!;
      const attacker = { url: new URL(address), address: `2001:db8:0:${network}::${host + 1}`, signal: end.signal };
      void (async () => {
        while (!end.signal.aborted) {
          tries[each.name] = (tries[each.name] ?? 0) + 1;
          await each.run(attacker).catch(() => {});
          await sleep(PAUSE);
        }
      })();
    }
  process.once("message", () => {
    end.abort();
    process.send!(tries);
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.once("message", (order: Order) => attack(order));
