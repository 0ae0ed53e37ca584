/** Where the server is, as people write it: `host:port`, `host`, `http://host:port` or, with TLS, `https://host:port`. */

import { Unusable } from './errors.js';

export const PORT_DEFAULT = 3144;
const EXPECTED = 'this is not an address; write host:port';

export interface Address {
  readonly given: string;
  readonly host: string;
  readonly port: number;
  /** Undefined if the address does not say, and leaves it to what else was said. */
  readonly tls: boolean | undefined;
}

export function parseAddress(given: string): Address {
  const [, scheme, rest = ''] = /^(?:(https?):\/\/)?(.*?)\/?$/.exec(given) ?? [];
  const tls = scheme === undefined ? undefined : scheme === 'https';
  // More than one colon without brackets is a bare IPv6 address.
  const matched =
    /^\[(?<host>[^\]]*)\](?::(?<port>.*))?$/.exec(rest) ??
    /^(?<host>[^:]*:[^:]*:.*)$/.exec(rest) ??
    /^(?<host>[^:]*)(?::(?<port>.*))?$/.exec(rest);
  const { host, port } = matched?.groups ?? {};
  if (!host || !/^[\p{L}\p{N}\-._:%]+$/u.test(host)) {
    throw new Unusable(`\`${given}\`: ${EXPECTED}`);
  }
  if (port === undefined) {
    return { given, host, port: PORT_DEFAULT, tls };
  }
  const number = Number(port);
  if (!/^\d{1,5}$/.test(port) || number < 1 || number > 65_535) {
    throw new Unusable(`\`${given}\`: the port is not a number from 1 to 65535`);
  }
  return { given, host, port: number, tls };
}
