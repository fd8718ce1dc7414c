export { internalDocument, internalDocumentPath, internalDocumentRoutes } from './internal.ts'
export {
  type ContractConfig,
  contractRoutes,
  defaultLimits,
  publicContract,
  publicDocumentPath,
} from './public.ts'
