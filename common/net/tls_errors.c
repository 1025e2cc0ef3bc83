/* Error messages that say what to do. */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "common/net/tls_internal.h"

/* ---- Certificates ---- */

static const struct {
    long code;
    const char *what, *advice;
} doubts[] = {
    {X509_V_ERR_CERT_NOT_YET_VALID, "is not valid yet", "is the clock right?"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, "is of an unknown issuer", "is this the right CA file?"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, "is of an unknown issuer", "is this the right CA file?"},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, "is of an unknown issuer", "is this the right CA file?"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, "is of a CA that is not known here", "is this the right CA file?"},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "is its own issuer", "give that certificate as the CA file"},
    {X509_V_ERR_CERT_SIGNATURE_FAILURE, "was not signed by the issuer that it names", "is this the right CA file?"},
    {X509_V_ERR_CERT_REVOKED, "was revoked", "make a new one"},
    {X509_V_ERR_INVALID_PURPOSE, "is not meant for this", "its extended key usage must allow it"},
};

void
tls_error_untrusted(long code, X509 *cert, const char *wanted, char *out, size_t size)
{
    char subject[128] = "", issuer[128] = "", end[40] = "";
    const char *what = X509_verify_cert_error_string(code), *advice = NULL;

    if (cert != NULL) {
        tls_name_text(X509_get_subject_name(cert), subject, sizeof subject);
        tls_name_text(X509_get_issuer_name(cert), issuer, sizeof issuer);
        tls_time_text(X509_get0_notAfter(cert), end, sizeof end);
    }
    if (code == X509_V_ERR_CERT_HAS_EXPIRED) {
        snprintf(out, size, "the peer's certificate (%s) has expired on %s: renew it", subject, end);
        return;
    }
    if (code == X509_V_ERR_HOSTNAME_MISMATCH || code == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        snprintf(out, size,
                 "the peer's certificate (%s) does not name '%.128s': it needs that name among its subjectAltName, or "
                 "say another name (tls_name, PSD_TLS_NAME)",
                 subject, wanted != NULL ? wanted : "");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(doubts); i++)
        if (doubts[i].code == code) {
            what = doubts[i].what;
            advice = doubts[i].advice;
        }
    snprintf(out, size, "the peer's certificate (%s, issued by %s) %s%s%s", subject, issuer, what,
             advice != NULL ? ": " : "", advice != NULL ? advice : "");
}

/* ---- Alerts, which the other side sends ---- */

static const struct {
    int alert;
    const char *text;
} alerts[] = {
    {SSL3_AD_BAD_CERTIFICATE, "the peer says that our certificate is bad"},
    {SSL3_AD_UNSUPPORTED_CERTIFICATE, "the peer says that our certificate is of a kind that it does not take"},
    {SSL3_AD_CERTIFICATE_REVOKED, "the peer says that our certificate was revoked"},
    {SSL3_AD_CERTIFICATE_EXPIRED, "the peer says that our certificate has expired: renew it"},
    {SSL3_AD_CERTIFICATE_UNKNOWN, "the peer does not take our certificate"},
    {TLS1_AD_UNKNOWN_CA, "the peer does not know the CA of our certificate: it is of another cluster, or the peer has "
                         "another CA file"},
    {TLS1_AD_ACCESS_DENIED, "the peer denies us access"},
    {TLS1_AD_PROTOCOL_VERSION, "the peer speaks no TLS 1.3"},
    {SSL3_AD_HANDSHAKE_FAILURE, "the peer finds nothing that both sides speak"},
    {TLS13_AD_CERTIFICATE_REQUIRED, "the peer demands a certificate (--tls-client-ca): give one and its key (tls_cert, "
                                    "PSD_TLS_CERT)"},
};

/* ---- OpenSSL's own reasons that have clearer messages here ---- */

static const struct {
    int reason;
    const char *text;
} reasons[] = {
    {SSL_R_UNSUPPORTED_PROTOCOL, "the peer offers no TLS 1.3"},
    {SSL_R_WRONG_VERSION_NUMBER, "the peer offers no TLS 1.3"},
    {SSL_R_VERSION_TOO_LOW, "the peer offers no TLS 1.3"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "the peer showed no certificate, and one is demanded (--tls-client-ca)"},
    {SSL_R_NO_SHARED_CIPHER, "the peer offers no cipher of TLS 1.3 that is spoken here"},
    {SSL_R_EXCESSIVE_MESSAGE_SIZE, "the peer's certificates, or another of its messages, are too long"},
};

void
tls_error_text(char *out, size_t size)
{
    unsigned long code = ERR_get_error();
    int reason = ERR_GET_REASON(code);
    const char *said = code != 0 ? ERR_reason_error_string(code) : NULL;

    ERR_clear_error();
    snprintf(out, size, "TLS failed: %s", said != NULL ? said : "the peer has ended it");
    if (code == 0 || ERR_GET_LIB(code) != ERR_LIB_SSL)
        return;
    for (size_t i = 0; i < ARRAY_LEN(alerts); i++)
        if (reason == SSL_AD_REASON_OFFSET + alerts[i].alert)
            snprintf(out, size, "%s", alerts[i].text);
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reason == reasons[i].reason)
            snprintf(out, size, "%s", reasons[i].text);
}
