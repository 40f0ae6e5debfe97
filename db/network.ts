import { isIPv6 } from "node:net";

/**
 * The smallest range of IP addresses that one client has, under which every limit counts it: an IPv4 address, or the first half of
 * an IPv6 address (/64). An IPv6 address that stands for an IPv4 address counts as that one: mapped addresses, those of NAT64
 * (64:ff9b::/96), and those of 6to4 (2002::/16), with which one IPv4 address has many networks.
 *
 *   networkOf("203.0.113.7")         // "203.0.113.7"
 *   networkOf("::ffff:203.0.113.7")  // "203.0.113.7"
 *   networkOf("2001:DB8::7")         // "2001:db8:0:0"
 */
export function networkOf(address: string): string {
  if (!address.includes(":")) return address;
  // How Node writes the IPv4 addresses of a server that listens on IPv6 too.
  const [, mapped] = MAPPED.exec(address) ?? [];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address;
  const groups = groupsOf(address);
  return embeddedIn(groups) ?? groups.slice(0, 4).map(hex).join(":");
}

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/;

/**
 * The range of IPv6 addresses (/48) that a provider may assign to one customer, who then has 65,536 networks. Null for other names of
 * clients.
 *
 *   siteOf("2001:db8:1:2")  // "2001:db8:1"
 */
export function siteOf(network: string): string | null {
  return NETWORK.test(network) ? network.slice(0, network.lastIndexOf(":")) : null;
}

const NETWORK = /^[\da-f]{1,4}(:[\da-f]{1,4}){3}$/;

/**
 * How many times the limit of one network the networks of one site may use together. More than one, because a mobile operator assigns
 * networks of one site to many customers.
 */
export const NETWORKS_PER_SITE = 16;

/** A range of addresses that a limit counts, and how many times the limit of one network applies to it. */
export type CountedNetwork = { readonly name: string; readonly factor: number };

/** The network of an address, and its site if it has one. */
export function countedNetworksOf(address: string): readonly CountedNetwork[] {
  const name = networkOf(address);
  const site = siteOf(name);
  const own = { name, factor: 1 };
  return site === null ? [own] : [own, { name: site, factor: NETWORKS_PER_SITE }];
}

/** The eight numbers of a valid IPv6 address. */
function groupsOf(address: string): readonly number[] {
  const [plain = ""] = address.split("%", 1);
  const [before = "", after = ""] = plain.replace(IPV4_AT_END, asGroups).split("::");
  const first = before === "" ? [] : before.split(":");
  const last = after === "" ? [] : after.split(":");
  const zeros = new Array<string>(8 - first.length - last.length).fill("0");
  return [...first, ...zeros, ...last].map((group) => Number.parseInt(group, 16));
}

const IPV4_AT_END = /(\d+)\.(\d+)\.(\d+)\.(\d+)$/;

const asGroups = (_text: string, a: string, b: string, c: string, d: string) =>
  `${hex(Number(a) * 256 + Number(b))}:${hex(Number(c) * 256 + Number(d))}`;

const hex = (group: number) => group.toString(16);

/** The IPv4 address that an IPv6 address stands for, or null. */
function embeddedIn(groups: readonly number[]): string | null {
  const [a, b, c, d, e, f, g, h] = groups as [number, number, number, number, number, number, number, number];
  const areZero = (c | d | e) === 0;
  if (areZero && a === 0 && b === 0 && f === 0xffff) return ipv4Of(g, h);
  if (areZero && a === 0x64 && b === 0xff9b && f === 0) return ipv4Of(g, h);
  return a === 0x2002 ? ipv4Of(b, c) : null;
}

const ipv4Of = (high: number, low: number) => [high >> 8, high & 255, low >> 8, low & 255].join(".");
