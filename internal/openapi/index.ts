export { internalDocument, internalDocumentRoutes } from './internal.ts'
export { contractRoutes, publicContract } from './public.ts'
