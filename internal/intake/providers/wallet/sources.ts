import type { CertificateSources } from '../../certificate-url.ts'

/**
 * Where the vendor keeps its certificates: the hosts of its interface, read 2026-11 from
 * https://developer.paypal.com/api/rest/requests/ and from the headers that it sends.
 */
export const walletSources: CertificateSources = {
  live: {
    origins: ['https://api.paypal.com', 'https://api-m.paypal.com'],
    path: '/v1/notifications/certs/',
  },
  sandbox: {
    origins: ['https://api.sandbox.paypal.com', 'https://api-m.sandbox.paypal.com'],
    path: '/v1/notifications/certs/',
  },
}
