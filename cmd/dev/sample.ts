/** The sample tenant of `config/samples/dev/demo.yaml`: its slug, and its API key, which is public. */
export const sampleTenant = { slug: 'demo', apiKey: 'lk_demo_0000000000000000000000000000' } as const
