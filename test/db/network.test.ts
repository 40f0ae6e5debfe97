import fc from "fast-check";
import { expect, test } from "vitest";
import { networkOf, siteOf } from "../../db/network.ts";

test.each([
  ["203.0.113.7", "203.0.113.7"],
  ["::ffff:203.0.113.7", "203.0.113.7"],
  ["::FFFF:cb00:7107", "203.0.113.7"],
  ["64:ff9b::203.0.113.7", "203.0.113.7"],
  ["64:ff9b:0:1::203.0.113.7", "64:ff9b:0:1"], // not the prefix of NAT64
  ["2002:cb00:7107:1234::1", "203.0.113.7"],
  ["2001:DB8:1:2:3:4:5:6", "2001:db8:1:2"],
  ["2001:0db8:0001:0002::", "2001:db8:1:2"],
  ["2001:db8::7", "2001:db8:0:0"],
  ["2001:db8:1::2:3:4:5", "2001:db8:1:0"],
  ["::1", "0:0:0:0"],
  ["::", "0:0:0:0"],
  ["::1:2:3:4:203.0.113.7", "0:0:1:2"],
  ["fe80::1%eth0", "fe80:0:0:0"],
  ["", ""],
])("the IP address %s belongs to the network %s", (address, network) => expect(networkOf(address)).toBe(network));

test.each([
  ["2001:db8:1:2", "2001:db8:1"],
  ["0:0:0:0", "0:0:0"],
  ["203.0.113.7", null],
  ["user 7", null],
  ["user a:b:c:d", null],
  ["", null],
])("the network %s belongs to the site %s", (network, site) => expect(siteOf(network)).toBe(site));

const group = fc.oneof(fc.constant(0), fc.nat(0xffff));
const groups = fc.array(group, { minLength: 8, maxLength: 8 });
const hex = (group: number) => group.toString(16);

/** With `::` for the longest run of zeros. */
const compressed = (text: string) => {
  const runs = [...text.matchAll(/(?:^|(?<=:))0(?::0)*(?=:|$)/g)].sort((one, other) => other[0].length - one[0].length);
  if (runs.length === 0) return text;
  const { index, 0: run } = runs[0]!;
  return `${text.slice(0, index).replace(/:$/, "")}::${text.slice(index + run.length).replace(/^:/, "")}`;
};
const withIPv4 = (address: readonly number[]) => {
  const [high = 0, low = 0] = address.slice(6);
  return `${address.slice(0, 6).map(hex).join(":")}:${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
};

/** How one address may be written. */
const textsOf = (address: readonly number[]): string[] => {
  const plain = address.map(hex).join(":");
  const padded = address.map((group) => hex(group).padStart(4, "0")).join(":");
  return [plain, compressed(plain), padded, plain.toUpperCase(), withIPv4(address), `${plain}%eth0`];
};

/** Those whose network is an IPv4 address. */
const isEmbedded = ([a, b, c, d, e, f]: readonly number[]) =>
  a === 0x2002 ||
  (c === 0 && d === 0 && e === 0 && ((a === 0 && b === 0 && f === 0xffff) || (a === 0x64 && b === 0xff9b && f === 0)));

test("all texts of one address belong to one network", () => {
  fc.assert(
    fc.property(groups, (address) => {
      const [network, ...others] = textsOf(address).map(networkOf);
      for (const other of others) expect(other).toBe(network);
    }),
  );
});

test("two IPv6 addresses belong to one network exactly if their first 64 bits are equal", () => {
  const plain = groups.filter((address) => !isEmbedded(address));
  const pair = fc.oneof(
    fc.tuple(plain, plain),
    fc.tuple(plain, fc.tuple(group, group, group, group)).map(([one, rest]) => [one, [...one.slice(0, 4), ...rest]]),
    // Differ in one of the first four groups.
    fc.tuple(plain, fc.nat(3)).map(([one, at]) => [one, one.map((each, i) => (i === at ? each ^ 1 : each))]),
  );
  fc.assert(
    fc.property(pair, ([one, other]) => {
      fc.pre(!isEmbedded(other!));
      const [first, second] = [one!, other!].map((address) => networkOf(address.map(hex).join(":")));
      const areInOne = one!.slice(0, 4).join() === other!.slice(0, 4).join();
      expect(first === second).toBe(areInOne);
      expect(siteOf(first!) === siteOf(second!)).toBe(one!.slice(0, 3).join() === other!.slice(0, 3).join());
    }),
  );
});

test("an IPv4 address is one network, however an IPv6 address contains it", () => {
  fc.assert(
    fc.property(fc.ipV4(), group, group, (address, subnet, host) => {
      const [a, b, c, d] = address.split(".").map(Number) as [number, number, number, number];
      const [high, low] = [hex(a * 256 + b), hex(c * 256 + d)];
      const texts = [address, `::ffff:${address}`, `::ffff:${high}:${low}`, `64:ff9b::${address}`];
      for (const text of [...texts, `2002:${high}:${low}:${hex(subnet)}::${hex(host)}`])
        expect(networkOf(text)).toBe(address);
    }),
  );
});
