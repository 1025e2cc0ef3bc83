/* A libmicrohttpd that was built without TLS: to preload. */
#include <microhttpd.h>

enum MHD_Result
MHD_is_feature_supported(enum MHD_FEATURE feature)
{
    return feature == MHD_FEATURE_TLS ? MHD_NO : MHD_YES;
}
