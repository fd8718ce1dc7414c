import { flag, type Group, group, type Keys, objectName, secretKey, text } from './kinds.ts'

/** A URL with a password in it: in a Secret of the platform's, or for trials in the chart's. */
function store(
  doc: string,
  { key, urls }: { readonly key: string; readonly urls: string },
  tls: Group,
): Group {
  return group(doc, {
    existingSecret: objectName('A Secret that holds the URL.'),
    key: secretKey('The key of the Secret that holds it.', key),
    url: text(
      'For trials, in place of that Secret: the URL itself, which Helm then keeps with the release.',
      '',
      urls,
    ),
    tls,
  })
}

/** TLS that is verified; nothing set: the URL alone decides. */
function storeTls(doc: string, serverName: string): Group {
  return group(doc, {
    ca: group('CA certificates that the server’s certificate must chain to; none: the public ones.', {
      existingSecret: objectName('A Secret that holds them, as PEM.'),
      existingConfigMap: objectName('In place of a Secret: a ConfigMap that holds them, as PEM.'),
      key: secretKey('The key that holds them.', 'ca.crt'),
    }),
    clientCertificate: group('A client certificate, where the server asks for one.', {
      existingSecret: objectName('A Secret of type kubernetes.io/tls: keys tls.crt and tls.key.'),
    }),
    serverName: text(serverName, '', '[-._*A-Za-z0-9]{1,253}|[0-9A-Fa-f:.]{2,45}|'),
  })
}

/** Where the stores are, how they are verified, and the key ring. */
export const stores: Keys = {
  database: store(
    'Postgres 15 or newer. The Secret is the platform’s: what rotates it restarts the pods.',
    { key: 'url', urls: 'postgres(ql)?://.+|' },
    storeTls(
      'With any of these TLS is required and verified, name included. Files that are rotated count from the next connection on.',
      'Name that the server’s certificate must have; empty: the host of the URL.',
    ),
  ),
  redis: store(
    'Redis 7.0 or newer with maxmemory-policy noeviction: redis://, redis+sentinel://, redis+cluster:// and their rediss… kin.',
    { key: 'url', urls: 'rediss?([+](sentinel|cluster))?://.+|' },
    storeTls(
      'As for the database; the URL has to begin with rediss. It holds for sentinels and for every node of a Cluster too.',
      'Name that every server’s certificate must have; empty: the host or address by which each is reached.',
    ),
  ),
  keyRing: group(
    'The keys that seal tenants’ secrets in Postgres, `id:base64 of 32 bytes`, comma separated: the first one seals, all of them open.',
    {
      existingSecret: objectName(
        'A Secret that holds them. Needed where charts are rendered without a cluster, as Argo CD does.',
      ),
      key: secretKey('The key of the Secret that holds them.', 'keyRing'),
      generate: flag(
        'Without existingSecret: make one key at the first installation and keep it, beyond the release too. To rotate it, see "Rotating the key ring" in the README of this chart.',
        true,
      ),
      replacesLost: flag(
        'For a ring that is lost for good: lets the operator begin although this one opens none of the stored secrets, and seal them anew from the Secrets. Turn it off afterwards.',
        false,
      ),
    },
  ),
}
